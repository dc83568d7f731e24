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

/// The model of [model] with what is learnt from it, its initial weights drawn by [trainer] seed or read from
/// `model.weights`; `notes`, where given, are told which were taken from there and which were not. It is laid out for
/// `device`, and still on the CPU. `python` makes what [model] names in Python; it must outlive the model.
std::unique_ptr<NetworkTask> task_of(const Recipe& recipe, const DataSets& sets, const RankDevice& device,
                                     PythonHost* python, std::vector<std::string>* notes = nullptr);

/// What [trainer], [scheduler] and [snapshot] say. Snapshots go to `snapshots`.
TrainerOptions trainer_options_of(const Recipe& recipe, const std::filesystem::path& snapshots);

/// Returns `trainer.seed`.
std::uint64_t seed_of(const Recipe& recipe);

}  // namespace lockstep
