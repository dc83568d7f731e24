// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/validator.h"

#include <torch/torch.h>

#include <utility>

#include "lockstep/train/evaluation.h"
#include "lockstep/train/fit/stop_signals.h"
#include "lockstep/train/statistics_pass.h"

namespace lockstep {
namespace {

// Validation asks whether a stop was requested every so many batches; a training step hears it with its gradients.
constexpr std::int64_t kBatchesBetweenStopChecks = 16;

// A step's random choices are seeded by its number; these belong to no step.
constexpr std::int64_t kNoStep = -1;

}  // namespace

Validator::Validator(TrainedModel& model, const TrainingData& data, ForwardPass& forward,
                     const Participants& participants, const StepOptions& options)
    : model_(model), data_(data), forward_(forward), participants_(participants), precision_(options.precision) {}

std::optional<Validator::Metrics> Validator::validate(const StepPlace& place, StopRequest& stop) {
  auto& module = model_.module();
  model_.parallel().broadcast_buffers();
  auto training = std::exchange(module.metrics(), {});
  const auto is_stopped = [&] {
    stop.ask_on_signal();
    return stop.agree_now(model_.parallel(), model_.group());
  };
  bool is_whole = false;
  with_weights_of(participants_.extensions(), [&] {
    std::int64_t count = 0;
    is_whole = take_statistics(place, is_stopped) &&
               validate_batches(module, *data_.validation(), data_.validation_samples(), precision_,
                                [&] { return ++count % kBatchesBetweenStopChecks == 0 && is_stopped(); });
  });
  module.train();
  const auto validation = std::exchange(module.metrics(), std::move(training));
  if (!is_whole) return std::nullopt;
  auto metrics = validation.over_ranks(model_.group());
  metrics.merge(module.on_validation_end(model_.group(), metrics));
  return metrics;
}

bool Validator::refresh_statistics(const StepPlace& place, StopRequest& stop) {
  auto& module = model_.module();
  auto training = std::exchange(module.metrics(), {});
  bool is_whole = false;
  with_weights_of(participants_.extensions(), [&] {
    is_whole =
        take_statistics(place, [&] { return model_.parallel().agree_now(Signal::kStop, StopSignals::arrived()); });
  });
  module.metrics() = std::move(training);
  module.train();
  if (is_whole) return true;
  stop.ask_on_signal();
  stop.take_reason(model_.group());
  return false;
}

// For the weights that extensions have put in the module's place. Returns false if it was stopped.
bool Validator::take_statistics(const StepPlace& place, const std::function<bool()>& is_stopped) {
  if (!participants_.want_fresh_statistics()) return true;
  auto& module = model_.module();
  const auto run = [&](const Batch& batch, std::int64_t index) {
    const auto there = to_device(batch, model_.group().device().device);
    const auto* runs = forward_.batch_to_run(there);
    if (runs == nullptr) return;
    forward_.seed(kNoStep, index);
    module.metrics().begin_batch(batch.samples());
    forward_.loss(*runs, place);
  };
  const StatisticsBatches batches{.samples = data_.epoch_samples(), .run = run, .is_stopped = is_stopped};
  if (!retake_statistics(module, data_.train(), batches)) return false;
  model_.parallel().broadcast_buffers();
  for (auto* each : participants_.extensions()) {
    if (each->wants_fresh_statistics()) each->keep_statistics();
  }
  module.metrics().clear();
  return true;
}

}  // namespace lockstep
