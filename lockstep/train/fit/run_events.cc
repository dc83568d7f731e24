// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/run_events.h"

#include "lockstep/models/network.h"
#include "lockstep/train/run_facts.h"

namespace lockstep {

std::map<std::string, std::string> counts_in(const std::map<std::string, double>& numbers) {
  std::map<std::string, std::string> found;
  for (const auto& [number, name] :
       {std::pair(kLeftOutNumber, "steps_left_out"), std::pair(kRollbacksNumber, "rollbacks"),
        std::pair(kHealingsNumber, "healings")}) {
    const auto it = numbers.find(number);
    if (it != numbers.end()) found[name] = std::to_string(static_cast<std::int64_t>(it->second));
  }
  return found;
}

bool wants_requeue(const std::string& stopped_by) {
  return stopped_by == "signal" || stopped_by == "request" || stopped_by == "job_end";
}

RunStarted run_started(const TrainerOptions& options, const TrainingData& data, const TrainedModel& model) {
  const auto& group = model.group();
  const auto& loader = data.train().options();
  const auto planned = training_plan(options, data);
  RunStarted event;
  event.run_dir = options.snapshot.folder.parent_path();
  event.name = event.run_dir.filename().string();
  event.world = group.world();
  event.epochs = planned.epochs;
  event.steps_per_epoch = planned.steps_per_epoch;
  event.steps_total = planned.steps;
  event.global_batch = data.step_samples();
  event.batch = part_of({0, loader.global_batch}, loader.shard).size() * options.step.accumulate;
  event.parameters = parameter_count(model.module());
  event.resumed_from = options.snapshot.resume_from;
  event.facts = run_facts(group, model.weights().at(0).device(), options.step.precision);
  return event;
}

StepEnded step_ended(const TrainingState& state, std::int64_t samples, const TrainingData& data, TrainedModel& model) {
  return {.step = state.step,
          .epoch = state.epoch,
          .step_in_epoch = data.steps_for(state.place),
          .samples = samples,
          .learning_rate = model.optimizer().param_groups()[0].options().get_lr()};
}

RunEnded run_ended(const FitResult& result, const TrainingState& state) {
  return {.step = state.step,
          .epochs = state.epoch,
          .samples = state.samples,
          .stopped_by = result.stopped_by,
          .seconds = result.seconds,
          .samples_per_second = result.samples_per_second,
          .time_to_first_step_s = result.time_to_first_step_s.value_or(0),
          .facts = result.found,
          .metrics = state.metrics};
}

}  // namespace lockstep
