// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/graph_stepper.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/train/model_failure.h"

// How a recording works. GraphPlan decides how the next step runs. A recording runs the step once through StepRunner
// while the device records its operations, and nothing is computed. It is replayed at once, so the step is made. A
// replay reads its batch from the tensors of `recorded_`. The host's counting during a recording stands for the replay
// that follows. Each later replay counts for itself. Only batches of the full size have the recorded shapes. All ranks
// record and replay at the same steps, because collectives are in the recording. They agree on the times, and on
// whether each could record.
//
// A recording keeps the memory of a whole step, and the allocator lends it to nobody else. An epoch's short last step
// needs memory of its own beside it, and so does a validation. If some rank does not have that, all ranks drop their
// recordings before.

namespace lockstep {

GraphStepper::GraphStepper(TrainedModel& model, StepRunner& steps, ForwardPass& forward, LossCounter& losses,
                           const TrainerOptions& options)
    : model_(model), steps_(steps), forward_(forward), losses_(losses), options_(options) {}

void GraphStepper::plan(const TrainingData& data) {
  const auto& group = model_.group();
  const auto& device = group.device();
  const auto& step = options_.step;
  const auto toggle = step.device.graph;
  full_samples_ = data.train().options().global_batch;
  GraphFacts facts{.accumulate = step.accumulate,
                   .finds_unused = step.parallel.find_unused_parameters,
                   .keeps_compression = step.parallel.compression.kind == Compression::kPowerSgd,
                   .skips_steps = leaves_out_steps(options_.guard.on_nonfinite),
                   .awaits_gradients = step.heal == Toggle::kOn && group.can_rejoin(),
                   .update_is_fused = model_.device_update() != nullptr,
                   .moves_momentum = model_.scheduler().moves_momentum(),
                   .has_empty_parts = full_samples_ < group.world(),
                   .shares_device = group.shares_device()};
  if (!device.is_cpu() && toggle == Toggle::kAuto) {
    const auto runtime = device.backend->runtime();
    facts.runtime_reason = why_recordings_are_blind(runtime.kind, runtime.runtime);
  }
  facts.needs_double_rate = weights_type(step.precision) == at::kDouble;
  if (toggle != Toggle::kOff) {
    facts.device_records = !device.is_cpu() && device.backend->step_graph(device.index()) != nullptr;
    facts.module_reason = model_.module().why_not_recorded();
  }
  const auto reason = toggle == Toggle::kOff ? "trainer.graph is off" : why_not_recorded(facts);
  if (reason.empty()) {
    plan_.emplace(toggle, training_plan(options_, data).steps_per_epoch);
  } else if (toggle == Toggle::kOn) {
    throw Error(ErrorKind::kRecipe, "trainer.graph is on, but the step cannot be recorded: " + reason,
                "leave it at auto, which records if it can");
  } else if (!device.is_cpu()) {
    finding_ = "steps are not replayed: " + reason;
  }
}

void GraphStepper::interrupt() {
  if (plan_) plan_->interrupt();
}

void GraphStepper::run(const StepBatches& step, const StepPlace& place) {
  if (!plan_) return steps_.run(step, place);
  if (!is_full(step)) {
    plan_->interrupt();
    if (graph_) make_room_for_short_step();
    return steps_.run(step, place);
  }
  if (plan_->wants_mark()) {
    model_.group().await_device();
    plan_->mark(Clock::now());
  }
  if (plan_->undecided()) decide();
  switch (plan_->next()) {
    case GraphPlan::Way::kEager:
      steps_.run(step, place);
      break;
    case GraphPlan::Way::kRecord:
      record(step, place);
      break;
    case GraphPlan::Way::kReplay:
      if (graph_) {
        replay(step, place);
      } else {
        record(step, place);
      }
      break;
  }
  plan_->done();
  if (plan_->is_decided() && finding_ != plan_->reason()) finding_ = plan_->reason();
}

// Decides by the times of the slowest rank, so that all ranks decide the same.
void GraphStepper::decide() {
  const auto times = *plan_->undecided();
  const auto slowest = [&](double seconds) {
    const auto all = model_.group().all_gather(std::llround(seconds * 1e9));
    return static_cast<double>(*std::max_element(all.begin(), all.end())) / 1e9;
  };
  plan_->decide({.eager_s = slowest(times.eager_s), .replay_s = slowest(times.replay_s)});
  if (plan_->next() == GraphPlan::Way::kEager) graph_.reset();
}

// Returns true if each rank has the memory of so many steps beside the recording. What `available` counts includes the
// recording's own.
bool GraphStepper::all_have_room(double steps) {
  const auto beside = model_.group().device().memory().available - graph_bytes_;
  const bool has_room = static_cast<double>(beside) >= steps * static_cast<double>(graph_bytes_);
  const auto all = model_.group().all_gather(has_room ? 1 : 0);
  return std::find(all.begin(), all.end(), 0) == all.end();
}

void GraphStepper::drop_recording() {
  auto& group = model_.group();
  const auto& device = group.device();
  group.await_device();
  graph_.reset();
  recorded_ = {};
  device.backend->give_back_memory(device.index());
}

// A short step takes less memory than the recorded one. It comes once in each epoch, so a recording that is made again
// after it would not pay where epochs are short.
void GraphStepper::make_room_for_short_step() {
  if (all_have_room(1)) return;
  drop_recording();
  plan_->refuse(
      "a recording holds memory that the epoch's short last batch needs; data.drop_last = true leaves it out");
  finding_ = plan_->reason();
}

// A pass without gradients takes less memory than a step with as many samples. A validation may begin with such a pass
// over the training data, for the statistics of BatchNorm.
void GraphStepper::make_room_for_pass(std::int64_t global_batch) {
  const auto steps = static_cast<double>(global_batch) / static_cast<double>(full_samples_);
  if (!graph_ || all_have_room(std::max(steps, 1.0))) return;
  drop_recording();
  plan_->record_again();
}

// Records the step and also makes it, since the recording is replayed at once.
void GraphStepper::record(const StepBatches& step, const StepPlace& place) {
  std::string reason;
  const bool is_recorded = try_recording(step, place, reason);
  const auto all = model_.group().all_gather(is_recorded ? 1 : 0);
  if (std::find(all.begin(), all.end(), 0) == all.end()) {
    graph_->replay();
    model_.parallel().end_replay();
    return;
  }
  graph_.reset();
  recorded_ = {};
  model_.optimizer().zero_grad();
  if (is_recorded) {
    count_replay(-step.batches.front().samples());
    reason = "another rank could not record it";
  }
  if (options_.step.device.graph == Toggle::kOn) {
    throw Error(ErrorKind::kUsage, "trainer.graph is on, but the step cannot be recorded: " + reason,
                "leave it at auto, which records if it can");
  }
  plan_->refuse(reason);
  model_.reconnect();
  steps_.run(step, place);
}

// Returns false with the reason if this rank cannot record. It counts the step on the host once, for the replay that
// follows. An exception must not end this rank alone, since the others wait to agree. If the exception has another
// cause than the recording, the step throws it again when it runs one operation at a time. That holds for a lost peer,
// too.
bool GraphStepper::try_recording(const StepBatches& step, const StepPlace& place, std::string& reason) {
  model_.wait_for_readers();  // Another thread's call to the device would spoil the recording.
  const auto counted = losses_.epoch_samples();
  try {
    auto host = at::Generator(at::detail::getDefaultCPUGenerator());
    prepare_recording(step, place);
    const auto before = host.get_state();
    capture(place);
    // A random number drawn on the host would be the same in every replay, if a kernel takes it as an argument. So such
    // a step is not recorded. In tests a CPU stands in for a device, and draws all its numbers on the host.
    if (model_.group().device().device.is_cpu() || at::equal(before, host.get_state())) return true;
    reason = "it draws random numbers on the host";
  } catch (const std::exception& error) {
    reason = one_line_reason(error);
  }
  if (losses_.epoch_samples() != counted) count_replay(-step.batches.front().samples());
  return false;
}

void GraphStepper::prepare_recording(const StepBatches& step, const StepPlace& place) {
  const auto& device = model_.group().device();
  // During a recording the device's allocator takes new memory only, and does not use memory that earlier steps have
  // freed. So that memory is returned to the device first.
  device.backend->give_back_memory(device.index());
  recorded_ = step;
  for (auto& field : recorded_.batches.front().fields) field = field.clone();
  forward_.seed(place.step, 0);
  model_.parallel().begin_replay(step.batches.front().samples(), step.global_samples);
}

void GraphStepper::capture(StepPlace place) {
  const auto& device = model_.group().device();
  const auto free = device.memory().free;
  graph_ = device.backend->step_graph(device.index());
  const auto held = model_.parallel().recording();
  place.is_recorded = true;
  graph_->capture([&] { steps_.run(recorded_, place); });
  graph_bytes_ = free - device.memory().free;
}

// Counts a replay's samples on the host. A negative number undoes the count of a recording.
void GraphStepper::count_replay(std::int64_t samples) {
  losses_.add_samples(samples);
  model_.module().metrics().repeat_batch(samples);
}

void GraphStepper::replay(const StepBatches& step, const StepPlace& place) {
  const auto& batch = step.batches.front();
  model_.wait_for_readers();
  auto& fields = recorded_.batches.front().fields;
  for (std::size_t i = 0; i < fields.size(); ++i) fields[i].copy_(batch.fields[i], /*non_blocking=*/true);
  forward_.seed_device(place.step, 0);
  model_.parallel().begin_replay(batch.samples(), step.global_samples);
  graph_->replay();
  count_replay(batch.samples());
  model_.parallel().end_replay();
}

}  // namespace lockstep
