// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep {

/// The interface by which BatchNorm layers compute statistics over the samples of all ranks. All layers of a module
/// share one object. The training implements it.
struct StatisticsSync {
  /// Replaces each number by its sum over all ranks. Each layer calls it once in forward and once in backward, on every
  /// rank in the same order. The tensor is float64, has one dimension, and is on the layer's device.
  std::function<void(at::Tensor&)> sum;
  /// False if this rank has no samples. The rank then runs any other sample, so that it takes part in the sums, and
  /// that sample does not count. Its loss must be multiplied by zero. Each layer reads this in forward.
  bool takes_part = true;
};

/// Batch normalisation over the second dimension, the channels. Names and numbers are those of torch's BatchNorm2d.
///
/// With a StatisticsSync, each rank's training results are its part of what one process computes for the whole batch.
/// That holds for outputs, gradients and running statistics. Parts may differ in size.
class BatchNorm : public torch::nn::Module {
 public:
  explicit BatchNorm(std::int64_t channels);

  /// Shape: [N, channels, …], floating; returns the same.
  /// Collective: in training, if there is a StatisticsSync; backward too.
  /// Throws: Error(kRecipe) if a channel has only one number in training, since that has no variance.
  at::Tensor forward(const at::Tensor& input);

  void set_sync(std::shared_ptr<StatisticsSync> sync) { sync_ = std::move(sync); }

  /// Restarts the running statistics as the plain mean over training batches until end_mean(). This is what torch's
  /// layer does with momentum None.
  void begin_mean();
  void end_mean() { batches_in_mean_.reset(); }

 private:
  double next_momentum();
  at::Tensor synced(const at::Tensor& input);

  at::Tensor weight_;
  at::Tensor bias_;
  at::Tensor running_mean_;
  at::Tensor running_var_;
  at::Tensor num_batches_tracked_;
  std::shared_ptr<StatisticsSync> sync_;
  std::optional<std::int64_t> batches_in_mean_;
};

/// Sets the StatisticsSync of every BatchNorm layer in `module`. With null, layers compute over their own rank's
/// samples again. Returns the number of layers.
std::int64_t set_statistics_sync(torch::nn::Module& module, const std::shared_ptr<StatisticsSync>& sync);

}  // namespace lockstep
