// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/step_runner.h"

#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/device/range_mark.h"
#include "lockstep/watch/page.h"

namespace lockstep {

StepRunner::StepRunner(TrainedModel& model, ForwardPass& forward, LossCounter& losses, const StepOptions& options)
    : model_(model), forward_(forward), losses_(losses), backend_(*model.group().device().backend) {
  if (options.replicas <= 1) return;
  const auto& group = model.group();
  if (!group.device().is_cpu()) {
    throw Error(ErrorKind::kRecipe, "strategy dp is for CPUs, and this rank computes on " + group.device().device.str(),
                "use strategy ddp, with one rank for each device");
  }
  if (group.world() > 1) {
    throw Error(ErrorKind::kRecipe, "strategy dp has one rank, and there are " + std::to_string(group.world()),
                "start one, or use strategy ddp");
  }
  replicas_ = std::make_unique<Replicas>(model.module(), options.replicas, options.precision);
}

void StepRunner::run(const StepBatches& step, const StepPlace& place) {
  for (std::size_t i = 0; i < step.batches.size(); ++i) {
    if (i + 1 < step.batches.size()) {
      const auto guard = model_.parallel().no_sync();
      backward(step, i, place);
    } else {
      backward(step, i, place);
    }
  }
  if (before_update_) before_update_();
  const RangeMark mark(backend_, "update");
  Page::own().enter(Phase::kUpdate, place.step);
  model_.update();
}

void StepRunner::backward(const StepBatches& step, std::size_t index, const StepPlace& place) {
  const auto& batch = step.batches[index];
  if (!replicas_) {
    const auto loss = loss_for_backward(batch, static_cast<std::int64_t>(index), place);
    if (before_averaging_ && index + 1 == step.batches.size()) before_averaging_();
    const RangeMark mark(backend_, "backward");
    Page::own().enter(Phase::kBackward, place.step);
    ForwardPass::name_failures(batch, place,
                               [&] { model_.parallel().backward(loss, batch.samples(), step.global_samples); });
    return;
  }
  forward_.seed(place.step, static_cast<std::int64_t>(index));
  ForwardPass::name_failures(batch, place, [&] {
    losses_.add_sum({replicas_->run(batch, step.global_samples, model_.scaler()), batch.samples()});
  });
  // The replicas have computed the gradients already. This call only sends the signals.
  model_.parallel().backward({}, 0, step.global_samples);
}

// Returns the mean loss of the batch, scaled for backward. Undefined if this rank runs nothing.
at::Tensor StepRunner::loss_for_backward(const Batch& batch, std::int64_t index, const StepPlace& place) {
  const auto* runs = forward_.batch_to_run(batch);
  if (runs == nullptr) return {};
  if (!place.is_recorded) forward_.seed(place.step, index);
  const RangeMark mark(backend_, "forward");
  model_.module().metrics().begin_batch(batch.samples());  // A stand-in's are none.
  const auto loss = forward_.loss(*runs, place);
  if (batch.samples() == 0) return loss;
  losses_.add(loss, batch.samples(), place.step + 1);
  return model_.scaler() != nullptr ? model_.scaler()->scaled(loss) : loss;
}

}  // namespace lockstep
