// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/train/extension.h"

namespace lockstep {

struct WeightAverageOptions {
  std::optional<double>
      decay{};                  ///< Of an exponential average over steps; without it, the plain mean over epochs' ends.
  std::int64_t from_epoch = 0;  ///< Averaging begins with this epoch.
};

/// A second set of weights: the average of those that training went through. Validation sees them, and they are what
/// the run is worth in the end: `average.*` in its snapshots.
///
/// With `decay` d they are EMA: a ← d·a + (1 - d)·w after each step, the first step's w as they are. Without, SWA: the
/// mean of w at the ends of epochs from `from_epoch` on.
/// Source: torch.optim.swa_utils.AveragedModel, tests/golden/averages.
class WeightAverage final : public Extension {
 public:
  explicit WeightAverage(WeightAverageOptions options) : options_(options) {}

  std::string name() const override { return "average"; }
  void start(Module& module) override;
  void after_step(const TrainingState& state) override;
  void after_epoch(const TrainingState& state) override;
  /// Puts the averages in the module's place, once there are some.
  void before_validation() override;
  void after_validation() override;
  bool wants_fresh_statistics() const override { return count_ > 0 && !options_.decay; }
  std::vector<SavedTensor> saved() const override;
  void restore(const std::map<std::string, at::Tensor>& tensors) override;

 private:
  void swap();
  at::Tensor restored_as(const std::string& name, const at::Tensor& like) const;
  void take(double share);

  WeightAverageOptions options_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> averages_;
  std::vector<SavedTensor> buffers_;    ///< The module's own.
  std::vector<at::Tensor> statistics_;  ///< The averages', by buffers_'s places; empty before the first validation.
  std::vector<at::Tensor> kept_;        ///< What buffers_ held before a validation.
  std::map<std::string, at::Tensor> restored_;
  std::int64_t count_ = 0;  ///< How many sets of weights are in them.
};

}  // namespace lockstep
