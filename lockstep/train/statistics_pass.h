// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/train/extension.h"
#include "lockstep/train/module.h"

namespace lockstep {

/// While an object of this class lives, a module's BatchNorm layers compute new running statistics, as the plain mean
/// over the coming batches. This includes LibTorch's own BatchNorm layers.
class BatchNormMeans {
 public:
  /// `module` must outlive this object.
  explicit BatchNormMeans(torch::nn::Module& module);
  ~BatchNormMeans();
  BatchNormMeans(const BatchNormMeans&) = delete;
  BatchNormMeans& operator=(const BatchNormMeans&) = delete;

  /// True if the module has no layer with running statistics.
  bool empty() const { return undo_.empty(); }

 private:
  std::vector<std::function<void()>> undo_;
};

/// The batches of a statistics pass. Both functions are called on every rank for the same batches.
struct StatisticsBatches {
  std::int64_t samples = 0;  ///< Of all ranks.
  std::function<void(const Batch& batch, std::int64_t index)> run;
  std::function<bool()> is_stopped;  ///< Asked before every 16th batch, the first one included.
};

/// Computes BatchNorm's running statistics for a module's present weights, as torch.optim.swa_utils.update_bn does. It
/// is one pass over the training data in training mode, without a graph.
///
/// The statistics are those of this rank's part of each batch, unless layers are synchronised. The pass always reads
/// epoch 0, so statistics depend on the weights alone, and a resumed run computes the same ones. Leaves `loader` at any
/// position. Returns false if the pass was stopped. The statistics must then not be used. Collective: yes, if
/// `is_stopped` is.
bool retake_statistics(Module& module, Loader& loader, const StatisticsBatches& batches);

/// Runs `work` while the module has the weights of `extensions`. Afterwards the module gets its own weights back, also
/// if `work` throws.
void with_weights_of(const std::vector<Extension*>& extensions, const std::function<void()>& work);

}  // namespace lockstep
