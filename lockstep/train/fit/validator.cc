// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/validator.h"

#include <torch/torch.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/train/evaluation.h"
#include "lockstep/train/pass_checks.h"
#include "lockstep/train/statistics_pass.h"
#include "lockstep/watch/page.h"

namespace lockstep {
namespace {

// Random choices in a training step are seeded by the step's number. Validation belongs to no step, so it has a seed of
// its own.
constexpr std::int64_t kNoStep = -1;

}  // namespace

Validator::Validator(TrainedModel& model, const TrainingData& data, ForwardPass& forward,
                     const Participants& participants, const StepOptions& options)
    : model_(model), data_(data), forward_(forward), participants_(participants), precision_(options.precision) {}

std::optional<Validator::Metrics> Validator::validate(const StepPlace& place, StopRequest& stop,
                                                      const std::function<void()>& save) {
  auto& module = model_.module();
  model_.parallel().broadcast_buffers();
  auto training = std::exchange(module.metrics(), {});
  const auto is_stopped = [&] {
    stop.ask_if_due();
    return stop.agree_now(model_.parallel(), model_.group());
  };
  auto end = PassEnd::kStopped;
  std::exception_ptr failure;
  with_weights_of(participants_.extensions(), [&] {
    if (take_statistics(place, is_stopped)) end = run_pass(stop, failure);
  });
  module.train();
  const auto validation = std::exchange(module.metrics(), std::move(training));
  if (end == PassEnd::kStopped) return std::nullopt;
  if (end == PassEnd::kFailed) fail(failure, save);
  auto metrics = metrics_over_ranks(validation, failure);
  if (failure) fail(failure, save);
  return metrics;
}

// Stores an exception of this rank in `failure`.
Validator::PassEnd Validator::run_pass(StopRequest& stop, std::exception_ptr& failure) {
  auto& group = model_.group();
  PassChecks checks(group);
  PassSignals all;
  const auto leaves = [&] {
    stop.ask_if_due();
    all = checks.check({.stop = stop.is_asked(), .failure = failure != nullptr});
    return all.stop || all.failure;
  };
  bool is_whole = false;
  try {
    is_whole = validate_batches(model_.module(), *data_.validation(), data_.validation_samples(), precision_, [&] {
      Page::own().enter(Phase::kValidation);
      return checks.end_batch() && leaves();
    });
  } catch (...) {
    failure = std::current_exception();
    if (is_peer_lost(failure)) throw;
  }
  // The other ranks learn of a failure at their next check. A rank that has finished makes its last check here.
  if (is_whole || failure) leaves();
  if (all.failure) return PassEnd::kFailed;
  if (is_whole) return PassEnd::kWhole;
  stop.take_reason(group);
  return PassEnd::kStopped;
}

// Returns the metrics over all ranks. If ranks have logged different names, all ranks throw together, and so does a
// single rank. Then the exception is stored in `failure`. Any other exception passes through.
Validator::Metrics Validator::metrics_over_ranks(const MeanMetrics& means, std::exception_ptr& failure) {
  auto& group = model_.group();
  bool has_means = false;
  try {
    auto metrics = means.over_ranks(group);
    has_means = true;
    metrics.merge(model_.module().on_validation_end(group, metrics));
    return metrics;
  } catch (const Error& error) {
    if (group.world() > 1 && (has_means || error.kind() != ErrorKind::kUsage)) throw;
    failure = std::current_exception();
  } catch (const std::exception&) {
    if (group.world() > 1) throw;
    failure = std::current_exception();
  }
  return {};
}

// Saves, then throws the failure on all ranks. Every rank calls this, with null if it has not failed itself.
void Validator::fail(const std::exception_ptr& failure, const std::function<void()>& save) {
  try {
    save();
  } catch (...) {
    // If the save fails too, the validation's exception is thrown, since it may be the cause of both.
    if (failure) std::rethrow_exception(failure);
    throw;
  }
  rethrow_on_every_rank(model_.group(), failure);
}

bool Validator::refresh_statistics(const StepPlace& place, StopRequest& stop) {
  auto& module = model_.module();
  auto training = std::exchange(module.metrics(), {});
  bool is_whole = false;
  const auto is_stopped = [&] {
    stop.ask_if_due();
    return model_.parallel().agree_now(Signal::kStop, stop.is_asked());
  };
  with_weights_of(participants_.extensions(), [&] { is_whole = take_statistics(place, is_stopped); });
  module.metrics() = std::move(training);
  module.train();
  if (is_whole) return true;
  stop.take_reason(model_.group());
  return false;
}

// Computes BatchNorm statistics for weights that extensions have put into the module. Returns false if the pass was
// stopped.
bool Validator::take_statistics(const StepPlace& place, const std::function<bool()>& is_stopped) {
  if (!participants_.want_fresh_statistics()) return true;
  auto& module = model_.module();
  const auto run = [&](const Batch& batch, std::int64_t index) {
    Page::own().enter(Phase::kValidation, place.step);
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
