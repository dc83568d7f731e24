// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include "lockstep/train/fit_loop.h"
#include "lockstep/train/stop_signals.h"

namespace lockstep {
namespace {

// Validation asks whether a stop was wished every so many batches; a training step hears it with its gradients.
constexpr std::int64_t kBatchesBetweenStopChecks = 16;

}  // namespace

bool FitLoop::is_due_at_epochs_end(std::int64_t every) const { return every > 0 && (state_.epoch + 1) % every == 0; }

void FitLoop::end_epoch() {
  state_.metrics["train_loss"] = mean_over_ranks(state_.loss_sum, state_.loss_samples);
  const auto logged = module_.metrics().over_ranks(group_);
  for (const auto& [name, value] : logged) state_.metrics[name] = value;
  const bool is_last = state_.epoch + 1 == options_.max_epochs;
  // A stop in mid-validation leaves the epoch open: the resumed run validates again.
  if ((is_due_at_epochs_end(options_.validate_every) || is_last) && !validate(logged)) return;
  const bool saves = is_due_at_epochs_end(options_.snapshot.every_epochs);
  ++state_.epoch;
  state_.place = 0;
  state_.loss_sum = 0;
  state_.loss_samples = 0;
  module_.metrics().clear();
  if (saves) save();
}

bool FitLoop::validate(const std::map<std::string, double>& logged) {
  const auto start = Clock::now();
  ValidationEnded event;
  event.step = state_.step;
  event.epoch = state_.epoch;
  event.train_loss = state_.metrics["train_loss"];
  event.metrics = logged;
  if (validation_) {
    parallel_->broadcast_buffers();
    module_.eval();
    auto training = std::exchange(module_.metrics(), {});
    const bool is_whole = validate_batches();
    const auto validation = std::exchange(module_.metrics(), std::move(training));
    if (!is_whole) return false;
    event.samples = validation_->source().size();
    for (const auto& [name, value] : validation.over_ranks(group_)) event.metrics[name] = state_.metrics[name] = value;
    module_.train();
  }
  event.seconds = seconds_between(start, Clock::now());
  tell(event);
  // What listeners make of the metrics must not wait for the next step: it may be the last one's.
  if (parallel_->agree_now(Signal::kStop, !stop_wish_.empty())) stopped_by_ = agreed_reason();
  last_step_ = Clock::now();
  return true;
}

bool FitLoop::validate_batches() {
  const torch::NoGradGuard no_grad;
  validation_->seek(0, 0);
  std::int64_t count = 0;
  while (const auto batch = validation_->next()) {
    if (batch->samples() > 0) {
      module_.metrics().begin_batch(batch->samples());
      module_.validation_step(*batch);
    }
    if (++count % kBatchesBetweenStopChecks != 0) continue;
    if (StopSignals::arrived() && stop_wish_.empty()) stop_wish_ = "signal";
    if (!parallel_->agree_now(Signal::kStop, !stop_wish_.empty())) continue;
    stopped_by_ = agreed_reason();
    return false;
  }
  return true;
}

}  // namespace lockstep
