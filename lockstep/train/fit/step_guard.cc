// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/step_guard.h"

#include <torch/torch.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

// Only the first few such steps are traced, since a trace runs the step again, slowly.
constexpr std::int64_t kMostTold = 3;
// After this many steps in a row that were left out, the training ends, since it makes no progress.
constexpr std::int64_t kMostInARow = 10;

std::string named(const StepPlace& place) {
  return "training step " + std::to_string(place.step + 1) + " (epoch " + std::to_string(place.epoch) + ")";
}

}  // namespace

StepGuard::StepGuard(TrainedModel& model, const TrainingData& data, ForwardPass& forward, LossCounter& losses,
                     const GuardOptions& options)
    : model_(model),
      data_(data),
      forward_(forward),
      losses_(losses),
      options_(options),
      comparison_(model.module(), model.optimizer(), model.group(), options.compare),
      watches_(options.on_nonfinite != OnNonfinite::kIgnore && model.scaler() == nullptr) {
  if (watches_) model_.leave_out_nonfinite(leaves_out_steps(options.on_nonfinite));
}

void StepGuard::before_step() {
  if (!watches_ || !leaves_out_steps(options_.on_nonfinite)) return;
  auto& module = model_.module();
  if (!before_) {
    before_.emplace();
    for (const auto& each : module.buffers()) before_->buffers.push_back(at::empty_like(each));
  }
  before_->losses = losses_.sums();
  before_->metrics = module.metrics().sums();
  const torch::NoGradGuard no_grad;
  const auto buffers = module.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) before_->buffers[i].copy_(buffers[i]);
}

bool StepGuard::after_step(const StepBatches& batches, const StepPlace& place) {
  if (!watches_) return true;
  if (leaves_out_steps(options_.on_nonfinite)) {
    if (!model_.was_left_out(/*waits=*/true)) {
      in_a_row_ = 0;
      return true;
    }
    leave_out({batches, place});
    return false;
  }
  if (!model_.tells_late()) {
    if (model_.was_left_out(/*waits=*/false)) stop({batches, place});
    return true;
  }
  const auto before = std::exchange(made_, Made{batches, place});
  if (model_.was_left_out(/*waits=*/false)) stop(before ? *before : *made_);
  return true;
}

void StepGuard::settle() {
  if (made_ && model_.was_left_out(/*waits=*/true)) stop(*made_);
}

void StepGuard::compare(std::int64_t step, double step_seconds, bool is_save) {
  if (is_save) settle();
  if (!is_save && !comparison_.is_due(step)) return;
  const auto healed = comparison_.compare(step, step_seconds);
  if (!healed.empty() && model_.group().is_main()) Log(2, "lockstep: ").warning(healed);
}

void StepGuard::leave_out(const Made& made) {
  ++left_out_;
  if (++in_a_row_ > kMostInARow) stop(made);
  const bool is_told = left_out_ <= kMostTold;
  const auto why = is_told ? origin(made).text : std::string();
  restore();
  if (!is_told || !model_.group().is_main()) return;
  Log(2, "lockstep: ")
      .warning("the gradient of " + named(made.place) + " is not finite: " + why + "; the step is left out" +
               (left_out_ == kMostTold ? "; later ones are only counted" : ""));
}

void StepGuard::stop(const Made& made) {
  const auto found = origin(made);
  const auto many =
      in_a_row_ > kMostInARow ? ", as were those of the " + std::to_string(kMostInARow) + " steps before it" : "";
  throw Error(found.kind, "the gradient of " + named(made.place) + " is not finite" + many + ": " + found.text,
              found.hint);
}

NonfiniteOrigin StepGuard::origin(const Made& made) {
  const NonfiniteTrace trace(model_.module(), data_.train().source(), model_.group());
  return trace.find(made.batches.batches, [&](const Batch& batch, std::size_t index) -> at::Tensor {
    forward_.seed(made.place.step, static_cast<std::int64_t>(index));
    const auto* runs = forward_.batch_to_run(batch);
    if (runs == nullptr) return {};
    model_.module().metrics().begin_batch(batch.samples());
    return forward_.loss(*runs, made.place);
  });
}

void StepGuard::restore() {
  if (!before_) return;
  auto& module = model_.module();
  model_.parallel().restore_compression({});  // What it kept of such a gradient is not finite either.
  losses_.restore(before_->losses);
  module.metrics().clear();
  module.metrics().restore(before_->metrics);
  const torch::NoGradGuard no_grad;
  auto buffers = module.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(before_->buffers[i]);
}

void StepGuard::restart(std::int64_t step) {
  made_.reset();
  in_a_row_ = 0;
  comparison_.restart(step);
}

}  // namespace lockstep
