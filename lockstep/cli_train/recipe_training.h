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

/// The sources of a network, other than the recipe.
struct NetworkSource {
  PythonHost* python = nullptr;      ///< Makes a network that [model] names in Python. It must outlive the model.
  std::filesystem::path compiled{};  ///< The compiled passes of `model.compiled = "auto"`. Empty for the plain network.
};

/// Returns the model of [model] with its loss. Its initial weights are drawn by [trainer] seed or read from
/// `model.weights`. If given, `notes` gets lines on which weights were read and which were not. The model has the
/// memory layout for `device`, but is still on the CPU.
std::unique_ptr<NetworkTask> task_of(const Recipe& recipe, const DataSets& sets, const RankDevice& device,
                                     const NetworkSource& source, std::vector<std::string>* notes = nullptr);

/// Returns only the network of task_of(), never compiled, to compile it ahead. Its weights have the type and the layout
/// of the training, but any values. Frozen parameters need no gradient.
std::shared_ptr<Network> network_to_train(const Recipe& recipe, const DataSets& sets, const RankDevice& device,
                                          PythonHost* python);

/// True if images and the weights of convolutions have the channels-last layout in memory.
bool wants_channels_last(const Recipe& recipe, const RankDevice& device);

/// Returns the options of [trainer], [scheduler] and [snapshot]. Snapshots go to `snapshots`.
TrainerOptions trainer_options_of(const Recipe& recipe, const std::filesystem::path& snapshots);

/// Returns `trainer.seed`.
std::uint64_t seed_of(const Recipe& recipe);

}  // namespace lockstep
