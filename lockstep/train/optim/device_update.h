// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// What an optimizer's update takes from the host, kept on the device, so that it can be given to the device without a
/// wait, and recorded once and replayed.
class DeviceUpdate {
 public:
  virtual ~DeviceUpdate() = default;

  /// Brings learning rates on the device up to date. From the first call on, updates read them there. Outside of any
  /// recording, before each step.
  void prepare_step();

  /// Steps to come change nothing where `overflow`, of shape [1], is 1; an undefined one ends that.
  void skip_where(at::Tensor overflow) { overflow_ = std::move(overflow); }

  bool is_prepared() const { return !rates_.empty(); }
  /// As the fused kernels take it.
  std::optional<at::Tensor> overflow() const { return overflow_.defined() ? std::optional(overflow_) : std::nullopt; }

  /// Hands `call` the learning rate of a parameter group: as a tensor where it is kept on the device, else as a number.
  template <typename Call>
  void with_rate(std::size_t group, double value, Call call) const {
    if (group < rates_.size()) {
      call(rates_[group]);
    } else {
      call(value);
    }
  }

  /// Takes over what was counted on the device, for a snapshot. Blocks: until it is there.
  virtual void settle() {}

 protected:
  virtual torch::optim::Optimizer& optimizer() = 0;

 private:
  std::vector<at::Tensor> rates_;
  std::vector<double> values_;  ///< What rates_ hold.
  at::Tensor overflow_;
};

/// How often parameters were updated, counted on the device. Parameters that have always been updated together share
/// one count; `Key` names a parameter's state.
template <typename Key>
class DeviceCounts {
 public:
  struct Count {
    at::Tensor steps;  ///< [] float, as the fused kernels want it.
    std::size_t members = 0;
  };

  /// The count of states that are updated together now, all with the same one so far: `first` of them at the start.
  /// Where others of that count are left out this time, these get one of their own.
  std::shared_ptr<Count> shared(const std::vector<Key>& states, const std::function<at::Tensor()>& first) {
    auto& count = counts_[states.front()];
    if (count && count->members == states.size()) return count;
    auto own = std::make_shared<Count>(Count{count ? count->steps.clone() : first(), states.size()});
    if (count) count->members -= states.size();
    for (const auto& each : states) counts_[each] = own;
    return own;
  }

  /// Null where the state was never counted on the device.
  std::shared_ptr<Count> find(const Key& state) const {
    if (counts_.empty()) return nullptr;
    const auto it = counts_.find(state);
    return it == counts_.end() ? nullptr : it->second;
  }

  const std::map<Key, std::shared_ptr<Count>>& all() const { return counts_; }

 private:
  std::map<Key, std::shared_ptr<Count>> counts_;
};

}  // namespace lockstep
