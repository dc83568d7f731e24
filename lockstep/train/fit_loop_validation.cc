// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "lockstep/observe/early_stopping.h"
#include "lockstep/train/evaluation.h"
#include "lockstep/train/fit_loop.h"
#include "lockstep/train/statistics_pass.h"
#include "lockstep/train/stop_signals.h"

namespace lockstep {
namespace {

// Validation asks whether a stop was requested every so many batches; a training step hears it with its gradients.
constexpr std::int64_t kBatchesBetweenStopChecks = 16;

constexpr const char* kBestValue = "best.value";

// A step's random choices are seeded by its number; these belong to no step.
constexpr std::int64_t kNoStep = -1;

}  // namespace

bool FitLoop::is_due_at_epochs_end(std::int64_t every) const { return every > 0 && (state_.epoch + 1) % every == 0; }

bool FitLoop::validate(const Metrics& logged) {
  const auto start = Clock::now();
  ValidationEnded event;
  event.step = state_.step;
  event.epoch = state_.epoch;
  event.train_loss = state_.metrics["train_loss"];
  event.metrics = logged;
  if (validation_) {
    parallel_->broadcast_buffers();
    if (!group_.device().is_cpu() && !std::exchange(is_validation_kept_, true))
      keep_samples(*validation_, "validation");
    auto training = std::exchange(module_.metrics(), {});
    bool is_whole = false;
    with_weights_of(participants_.extensions, [&] {
      std::int64_t count = 0;
      is_whole = recompute_statistics([&] { return is_stop_agreed(); }) &&
                 validate_batches(module_, *validation_, validation_samples_, options_.step.precision,
                                  [&] { return ++count % kBatchesBetweenStopChecks == 0 && is_stop_agreed(); });
    });
    module_.train();
    const auto validation = std::exchange(module_.metrics(), std::move(training));
    if (!is_whole) return false;
    event.samples = std::min(validation_samples_, validation_->source().size());
    auto metrics = validation.over_ranks(group_);
    metrics.merge(module_.on_validation_end(group_, metrics));
    for (const auto& [name, value] : metrics) event.metrics[name] = state_.metrics[name] = value;
  }
  scheduler_->observe(event.metrics);
  is_best_ = is_best(event);
  event.seconds = seconds_between(start, Clock::now());
  tell(event);
  // What listeners make of the metrics must not wait for the next step: it may be the last one's.
  if (parallel_->agree_now(Signal::kStop, !stop_reason_.empty())) stopped_by_ = agreed_reason();
  last_step_ = Clock::now();
  return true;
}

bool FitLoop::is_stop_agreed() {
  if (StopSignals::arrived() && stop_reason_.empty()) stop_reason_ = "signal";
  if (!parallel_->agree_now(Signal::kStop, !stop_reason_.empty())) return false;
  stopped_by_ = agreed_reason();
  return true;
}

// For the weights that extensions have put in the module's place. Returns false if it was stopped.
bool FitLoop::recompute_statistics(const std::function<bool()>& is_stopped) {
  const auto wants = [](const Extension* each) { return each->wants_fresh_statistics(); };
  if (std::none_of(participants_.extensions.begin(), participants_.extensions.end(), wants)) return true;
  const auto run = [&](const Batch& batch, std::int64_t index) {
    const auto there = to_device(batch, group_.device().device);
    const auto* runs = runs_for(there);
    if (runs == nullptr) return;
    seed_generators(step_seed(kNoStep, index));
    module_.metrics().begin_batch(batch.samples());
    mean_loss(*runs);
  };
  if (!retake_statistics(module_, *train_, {.samples = epoch_samples_, .run = run, .is_stopped = is_stopped}))
    return false;
  parallel_->broadcast_buffers();
  for (auto* each : participants_.extensions) {
    if (wants(each)) each->keep_statistics();
  }
  module_.metrics().clear();
  return true;
}

// Without a validation nobody has asked for them yet. A stop by a callback or by time leaves time for the pass; a
// signal does not.
void FitLoop::refresh_statistics() {
  const auto wants = [](const Extension* each) { return each->wants_fresh_statistics(); };
  if (std::none_of(participants_.extensions.begin(), participants_.extensions.end(), wants)) return;
  auto training = std::exchange(module_.metrics(), {});
  bool is_whole = false;
  with_weights_of(participants_.extensions, [&] {
    is_whole = recompute_statistics([&] { return parallel_->agree_now(Signal::kStop, StopSignals::arrived()); });
  });
  module_.metrics() = std::move(training);
  module_.train();
  ahead_.reset();
  train_->seek(state_.epoch, state_.place);
  if (is_whole) {
    saved_at_.reset();
    return;
  }
  if (StopSignals::arrived() && stop_reason_.empty()) stop_reason_ = "signal";
  stopped_by_ = agreed_reason();
}

bool FitLoop::is_best(const ValidationEnded& event) {
  const auto& options = options_.snapshot;
  if (options.monitor.empty()) return false;
  const double value = monitored(event, options.monitor, "snapshot.monitor");
  const auto it = state_.numbers.find(kBestValue);
  const bool is_better =
      it == state_.numbers.end() || (options.monitor_wants_max ? value > it->second : value < it->second);
  if (!is_better || !std::isfinite(value) || !std::isfinite(event.train_loss)) return false;
  state_.numbers[kBestValue] = value;
  return true;
}

// Called on every rank once a stop is agreed: the first rank that asked says why.
std::string FitLoop::agreed_reason() {
  const auto asking = group_.all_gather(stop_reason_.empty() ? 0 : 1);
  const auto first = std::find(asking.begin(), asking.end(), 1);
  LOCKSTEP_ASSERT(first != asking.end());
  return group_.broadcast_text(stop_reason_, static_cast<int>(first - asking.begin()));
}

}  // namespace lockstep
