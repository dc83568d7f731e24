// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/train/fit/batch_feed.h"
#include "lockstep/train/fit/forward_pass.h"
#include "lockstep/train/fit/replicas.h"
#include "lockstep/train/fit/trained_model.h"
#include "lockstep/train/sums/loss_counter.h"

namespace lockstep {

/// Makes one optimizer step, one operation at a time. It runs forward and backward of each batch, then the update.
class StepRunner {
 public:
  /// The arguments must outlive this object. `model` is connected.
  /// Throws: Error(kRecipe) if strategy "dp" is asked for on a device, or with more than one rank.
  StepRunner(TrainedModel& model, ForwardPass& forward, LossCounter& losses, const StepOptions& options);

  /// Makes the step. Gradients are averaged over all ranks while the last batch's backward runs.
  /// Collective: yes. Throws: the model's errors; as DistributedDataParallel::backward().
  void run(const StepBatches& step, const StepPlace& place);

  /// Sets a function to call in each step between its forward passes and the averaging.
  void call_before_averaging(std::function<void()> call) { before_averaging_ = std::move(call); }

  /// Sets a function to call in each step between the averaging and the update.
  void call_before_update(std::function<void()> call) { before_update_ = std::move(call); }

 private:
  void backward(const StepBatches& step, std::size_t index, const StepPlace& place);
  at::Tensor loss_for_backward(const Batch& batch, std::int64_t index, const StepPlace& place);

  TrainedModel& model_;
  ForwardPass& forward_;
  LossCounter& losses_;
  const DeviceBackend& backend_;
  std::function<void()> before_averaging_;
  std::function<void()> before_update_;
  std::unique_ptr<Replicas> replicas_;  ///< For strategy "dp" alone.
};

}  // namespace lockstep
