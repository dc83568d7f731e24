// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The part of an optimizer's update that stays on the device, so that steps can be recorded. Fused optimizers have it.
///
///     lockstep::FusedAdamW adamw(net->parameters(), torch::optim::AdamWOptions(1e-3));
///     lockstep::DeviceUpdate& update = adamw;
///     update.prepare_step();  // before each step, outside of a recording
///     adamw.step();
///     update.settle();  // before a snapshot

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep {

/// Keeps learning rates and counts of steps on the device. So an optimizer's update needs nothing from the host, and
/// can be recorded once and replayed.
class DeviceUpdate {
 public:
  virtual ~DeviceUpdate() = default;

  /// Copies learning rates to the device if they have changed. From the first call on, updates read them there. Call it
  /// before each step, outside of any recording.
  void prepare_step();

  /// From here on, updates change nothing if `overflow` is 1. An undefined tensor turns this off. Shape: overflow [1].
  void skip_where(at::Tensor overflow) { overflow_ = std::move(overflow); }

  bool is_prepared() const { return !rates_.empty(); }
  /// Returns the overflow tensor for the fused kernels, or nothing if it is undefined.
  std::optional<at::Tensor> overflow() const { return overflow_.defined() ? std::optional(overflow_) : std::nullopt; }

  /// Calls `call` with the learning rate of a parameter group, as a tensor if it is on the device, else as a number.
  template <typename Call>
  void with_rate(std::size_t group, double value, Call call) const {
    if (group < rates_.size()) {
      call(rates_[group]);
    } else {
      call(value);
    }
  }

  /// Copies the counts of steps from the device to the host, for a snapshot. Blocks: until the copy is complete.
  virtual void settle() {}
  /// Drops the counts on the device, because the optimizer's state was replaced. The next update starts from the new
  /// state.
  virtual void forget() {}

 protected:
  virtual torch::optim::Optimizer& optimizer() = 0;

 private:
  std::vector<at::Tensor> rates_;
  std::vector<double> values_;  ///< The numbers in rates_.
  at::Tensor overflow_;
};

/// Counts on the device how often parameters were updated. Parameters that were always updated together share one
/// count. `Key` names a parameter's state.
template <typename Key>
class DeviceCounts {
 public:
  struct Count {
    at::Tensor steps;  ///< [] float, for the fused kernels.
    std::size_t members = 0;
  };

  /// Returns the count of the states that are updated together now. All these states share one count so far. `first`
  /// makes the initial count. If the same count also belongs to states that are not updated now, `states` get a count
  /// of their own.
  std::shared_ptr<Count> shared(const std::vector<Key>& states, const std::function<at::Tensor()>& first) {
    auto& count = counts_[states.front()];
    if (count && count->members == states.size()) return count;
    auto own = std::make_shared<Count>(Count{count ? count->steps.clone() : first(), states.size()});
    if (count) count->members -= states.size();
    for (const auto& each : states) counts_[each] = own;
    return own;
  }

  /// Returns the count of a state. Null if the state was never counted on the device.
  std::shared_ptr<Count> find(const Key& state) const {
    if (counts_.empty()) return nullptr;
    const auto it = counts_.find(state);
    return it == counts_.end() ? nullptr : it->second;
  }

  const std::map<Key, std::shared_ptr<Count>>& all() const { return counts_; }
  void clear() { counts_.clear(); }

 private:
  std::map<Key, std::shared_ptr<Count>> counts_;
};

}  // namespace lockstep
