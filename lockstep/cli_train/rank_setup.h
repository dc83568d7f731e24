// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/join.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

struct OwnCores {
  int cores = 1;
  int hardware_threads = 1;  ///< Of which a core may have several.
};

/// Returns the number of this rank's cores. These are the cores to which it is bound or, if it is not bound, an equal
/// share of the node's cores.
OwnCores own_cores(const Placement& placement);

/// Returns a log whose lines begin with the rank, if there are several ranks.
Log rank_log(const Placement& placement);

/// Calls `work` with this process's placement. If `work` throws an Error, it is logged with the rank, and its kind
/// gives the exit code.
int with_placement(const Environment& env, const std::function<int(const Placement&)>& work);

/// Returns the options with which the recipe's ranks join: the device, and the folder for rank 0's address if no
/// launcher gives one.
JoinOptions join_options(const Recipe& recipe, const std::filesystem::path& run_dir = {});

/// Joins all ranks of the run, and checks them against the recipe, by number of ranks, device, threads and equal
/// settings everywhere. `run_dir` is the run's folder. `run_dir` is empty if there is no folder yet or if it is only
/// read.
///
/// Collective: yes. Throws: as join(); Error(kRecipe) if the ranks do not fit the recipe, or if their settings differ.
Group join_ranks(const Recipe& recipe, const Placement& placement, const Environment& env,
                 const std::filesystem::path& run_dir = {});

}  // namespace lockstep
