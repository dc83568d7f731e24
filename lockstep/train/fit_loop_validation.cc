// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "lockstep/observe/early_stopping.h"
#include "lockstep/train/evaluation.h"
#include "lockstep/train/fit_loop.h"
#include "lockstep/train/stop_signals.h"

namespace lockstep {
namespace {

// Validation asks whether a stop was wished every so many batches; a training step hears it with its gradients.
constexpr std::int64_t kBatchesBetweenStopChecks = 16;

constexpr const char* kBestValue = "best.value";

// Resets a BatchNorm layer to begin a plain mean over the batches to come.
bool begin_mean(torch::nn::Module& module, std::vector<std::function<void()>>& undo) {
  auto* layer = dynamic_cast<BatchNorm*>(&module);
  if (layer == nullptr) return false;
  layer->begin_mean();
  undo.push_back([layer] { layer->end_mean(); });
  return true;
}

// The same for one of torch's own, of any dimension.
template <typename Layer>
bool begin_torch_mean(torch::nn::Module& module, std::vector<std::function<void()>>& undo) {
  auto* layer = dynamic_cast<Layer*>(&module);
  if (layer == nullptr || !layer->running_mean.defined()) return false;
  const auto momentum = layer->options.momentum();
  layer->reset_running_stats();
  layer->options.momentum(std::nullopt);
  undo.push_back([layer, momentum] { layer->options.momentum(momentum); });
  return true;
}

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
    for (auto* extension : participants_.extensions) extension->before_validation();
    if (std::any_of(participants_.extensions.begin(), participants_.extensions.end(),
                    [](auto* each) { return each->wants_fresh_statistics(); })) {
      recompute_statistics();
    }
    std::int64_t count = 0;
    const bool is_whole = validate_batches(module_, *validation_, validation_samples_, options_.step.precision, [&] {
      return ++count % kBatchesBetweenStopChecks == 0 && is_stop_agreed();
    });
    for (auto* extension : participants_.extensions) extension->after_validation();
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
  if (parallel_->agree_now(Signal::kStop, !stop_wish_.empty())) stopped_by_ = agreed_reason();
  last_step_ = Clock::now();
  return true;
}

bool FitLoop::is_stop_agreed() {
  if (StopSignals::arrived() && stop_wish_.empty()) stop_wish_ = "signal";
  if (!parallel_->agree_now(Signal::kStop, !stop_wish_.empty())) return false;
  stopped_by_ = agreed_reason();
  return true;
}

// As torch.optim.swa_utils.update_bn: one pass over the training data, each batch's statistics with the same weight.
// They are of rank 0's part, as running statistics are.
void FitLoop::recompute_statistics() {
  std::vector<std::function<void()>> undo;
  for (const auto& each : module_.modules(/*include_self=*/false)) {
    begin_mean(*each, undo) || begin_torch_mean<torch::nn::BatchNorm1dImpl>(*each, undo) ||
        begin_torch_mean<torch::nn::BatchNorm2dImpl>(*each, undo) ||
        begin_torch_mean<torch::nn::BatchNorm3dImpl>(*each, undo);
  }
  if (undo.empty()) return;
  const torch::NoGradGuard no_grad;
  module_.train();
  train_->seek(state_.epoch, 0);
  std::int64_t place = 0;
  while (place < epoch_samples_) {
    const auto batch = train_->next();
    if (!batch) break;
    place += batch->global_samples;
    const auto there = to_device(*batch, group_.device().device);
    if (const auto* runs = runs_for(there)) module_.training_step(*runs);
  }
  for (const auto& each : undo) each();
  module_.metrics().clear();
  parallel_->broadcast_buffers();
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

// Called on every rank once a stop is agreed: the first rank that wished it says why.
std::string FitLoop::agreed_reason() {
  const auto wishes = group_.all_gather(stop_wish_.empty() ? 0 : 1);
  const auto first = std::find(wishes.begin(), wishes.end(), 1);
  LOCKSTEP_ASSERT(first != wishes.end());
  return group_.broadcast_text(stop_wish_, static_cast<int>(first - wishes.begin()));
}

}  // namespace lockstep
