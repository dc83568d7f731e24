// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/data/source/data_sets.h"
#include "lockstep/recipe/recipe.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/task/network_task.h"

namespace lockstep {

/// Returns the model of [model] with its loss. Its initial weights are drawn by [trainer] seed or read from
/// `model.weights`. If given, `notes` gets lines on which weights were read and which were not. The model has the
/// memory layout for `device`, but is still on the CPU. `python` makes a network that [model] names in Python, and must
/// outlive the model.
std::unique_ptr<NetworkTask> task_of(const Recipe& recipe, const DataSets& sets, const RankDevice& device,
                                     PythonHost* python, std::vector<std::string>* notes = nullptr);

/// Returns the options of [trainer], [scheduler] and [snapshot]. Snapshots go to `snapshots`.
TrainerOptions trainer_options_of(const Recipe& recipe, const std::filesystem::path& snapshots);

/// Returns `trainer.seed`.
std::uint64_t seed_of(const Recipe& recipe);

}  // namespace lockstep
