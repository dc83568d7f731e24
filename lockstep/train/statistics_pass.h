// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/train/extension.h"
#include "lockstep/train/module.h"

namespace lockstep {

/// Lets a module's BatchNorm layers, ours and torch's, take their running statistics anew while it lives: as the plain
/// mean over the batches to come.
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

/// Takes BatchNorm's running statistics of a module's present weights, as torch.optim.swa_utils.update_bn does: one
/// pass over the training data in training mode, without a graph.
///
/// They are of this rank's part of each batch, unless layers are synchronised. The pass reads epoch 0 whatever epoch it
/// is, so statistics depend on the weights alone: a resumed run takes the same ones. Leaves `loader` anywhere.
/// Returns false if it was stopped; the statistics are then of no use. Collective: yes, if `is_stopped` is.
bool retake_statistics(Module& module, Loader& loader, const StatisticsBatches& batches);

/// Runs `work` while the weights of `extensions` are in the module's place, and puts its own back also if it throws.
void with_weights_of(const std::vector<Extension*>& extensions, const std::function<void()>& work);

}  // namespace lockstep
