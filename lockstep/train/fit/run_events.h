// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "lockstep/observe/events.h"
#include "lockstep/train/fit/trained_model.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/fit/training_data.h"

namespace lockstep {

// Names of the entries of TrainingState::numbers that are counts.
inline constexpr const char* kLeftOutNumber = "guard.left_out";
inline constexpr const char* kRollbacksNumber = "guard.rollbacks";
inline constexpr const char* kHealingsNumber = "run.healings";

/// Returns these counts as facts for people. A count that is missing is left out.
std::map<std::string, std::string> counts_in(const std::map<std::string, double>& numbers);

/// True if the run was asked to stop before its own end, so that it should continue later.
bool wants_requeue(const std::string& stopped_by);

/// Returns the event of a training that starts, without its first step and epoch.
RunStarted run_started(const TrainerOptions& options, const TrainingData& data, const TrainedModel& model);

/// Returns the event of the step that brought the training to `state`, without its time and loss.
StepEnded step_ended(const TrainingState& state, std::int64_t samples, const TrainingData& data, TrainedModel& model);

/// Returns the event of a training that has ended, without the device's memory.
RunEnded run_ended(const FitResult& result, const TrainingState& state);

}  // namespace lockstep
