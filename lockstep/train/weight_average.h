// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Averages of the weights over a training, as EMA or SWA.
///
///     lockstep::WeightAverage average({.decay = 0.999});
///     lockstep::Trainer trainer({.max_epochs = 5});
///     trainer.add(average);
///     trainer.fit(module, data);
///     average.copy_to(module);  // fit() leaves the last step's weights there

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/extension.h"

namespace lockstep {

struct WeightAverageOptions {
  std::optional<double> decay{};  ///< Decay of an exponential average over steps. If absent, it is the plain mean over
                                  ///< the ends of epochs.
  std::int64_t from_epoch = 0;    ///< Averaging begins with this epoch.
};

/// A second set of weights, which is the average over the training. Validation uses it, and it is the run's result, as
/// `average.*` in its snapshots.
///
/// With `decay` d the average is an EMA: a ← d·a + (1 - d)·w after each step, which starts as the first step's w.
/// Without `decay` it is SWA, the mean of w at the ends of epochs from `from_epoch` on.
///
/// Each training begins new averages, or continues those of the snapshot that it resumes. The averages can be read
/// until the next training begins. The module itself holds the last step's weights.
/// Source: torch.optim.swa_utils.AveragedModel, tests/golden/averages.
class WeightAverage final : public Extension {
 public:
  explicit WeightAverage(WeightAverageOptions options) : options_(options) {}

  std::string name() const override { return "average"; }
  void start(Module& module) override;
  void after_step(const TrainingState& state) override;
  void after_epoch(const TrainingState& state) override;
  /// Exchanges the module's weights for the averages, if there are averages already.
  void before_validation() override;
  void after_validation() override;
  bool wants_fresh_statistics() const override;
  void keep_statistics() override;
  std::vector<SavedTensor> saved() const override;
  void restore(const std::map<std::string, at::Tensor>& tensors) override;

  /// Returns the number of sets of weights in the averages, which are steps for EMA and epochs for SWA. 0 if there are
  /// none yet.
  std::int64_t count() const { return count_; }
  /// Returns a copy of each parameter's average, and of SWA's BatchNorm statistics, by its name in the module. A tied
  /// weight is listed under its first name.
  /// Throws: Error(kUsage) if there are none yet, or if a stop signal came before the statistics were taken.
  std::map<std::string, at::Tensor> weights() const;
  /// Copies weights() into a module of the same kind. Throws: as weights(); Error(kUsage) for a module of another kind.
  void copy_to(torch::nn::Module& module) const;

 private:
  void clear();
  void require_same_kind() const;
  void swap();
  at::Tensor restored_as(const std::string& name, const at::Tensor& like) const;
  void take(double share);

  WeightAverageOptions options_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> averages_;
  std::vector<SavedTensor> buffers_;    ///< The module's own.
  std::vector<at::Tensor> statistics_;  ///< BatchNorm statistics of SWA's averages, in the order of buffers_. Empty
                                        ///< until they are computed.
  std::vector<at::Tensor> kept_;        ///< The values of buffers_ before a validation.
  std::map<std::string, at::Tensor> restored_;
  std::int64_t count_ = 0;  ///< Number of sets of weights in the averages.
};

}  // namespace lockstep
