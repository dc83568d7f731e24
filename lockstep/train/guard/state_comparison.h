// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/train/guard/guard_options.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep {

/// Compares the state that all ranks should share, that is parameters and the optimizer's state.
///
/// Averaged gradients are the same on every rank, so the same weights stay the same, bit for bit. If a bit flips in one
/// rank's memory, that rank's weights differ from then on. It continues with gradients for its own weights, and no
/// message shows this. Each rank hashes its tensors, and ranks exchange one number. Only if these differ do they
/// exchange a number for each tensor, which names the first one that differs. With three ranks or more, the majority
/// decides which rank is wrong. Buffers are left out, since each rank has its own until rank 0's are copied.
class StateComparison {
 public:
  /// The arguments must outlive this object. If there is one rank, it does nothing.
  StateComparison(torch::nn::Module& module, torch::optim::Optimizer& optimizer, Group& group,
                  const ComparisonOptions& options);

  /// True if a comparison is due after step `step`, on every rank alike.
  bool is_due(std::int64_t step) const;
  /// Compares after step `step`. `step_seconds` is the time of a step. It decides when the next comparison is due if
  /// `every_steps` is -1. The state must not change meanwhile.
  ///
  /// Returns a sentence on the state that was healed. Empty if the state is the same on all ranks.
  /// Collective: yes. Blocks: until the device is done and every rank has called this.
  /// Throws: Error(kEnvironment) on every rank, naming the first tensor that differs and the ranks with their hosts;
  ///         as Group::await_device().
  std::string compare(std::int64_t step, double step_seconds);

  /// Plans the next comparisons again after step `step`. Call it on all ranks when a new process has joined them.
  void restart(std::int64_t step);

  /// Returns the steps between comparisons for a share of 1 % of the time.
  static std::int64_t steps_between(double comparison_seconds, double step_seconds);

 private:
  struct Item {
    std::string name;
    at::Tensor tensor;
  };

  std::vector<Item> items() const;
  void plan_next(std::int64_t step, double seconds, double step_seconds);
  std::string resolve(const std::vector<Item>& all, const std::vector<std::int64_t>& own,
                      const std::vector<std::int64_t>& of_ranks, std::int64_t step);
  std::string first_difference(const std::vector<Item>& all, const std::vector<std::int64_t>& own, int sound) const;

  torch::nn::Module& module_;
  torch::optim::Optimizer& optimizer_;
  Group& group_;
  ComparisonOptions options_;
  bool is_optimizer_known_ = true;
  std::int64_t next_;
  std::int64_t same_at_ = -1;  ///< The last step whose state was the same everywhere. -1 for none.
};

/// Returns a number for each tensor that changes with any single bit of it. Tensors on a device are summed up there.
/// Blocks: until the device is done.
std::vector<std::int64_t> bit_sums(const std::vector<at::Tensor>& tensors);

}  // namespace lockstep
