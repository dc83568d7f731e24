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

/// Returns this rank's cores. They are those that it is bound to, or an equal share of the node's if it is not bound.
OwnCores own_cores(const Placement& placement);

/// Starts each line with the rank, if there are several.
Log rank_log(const Placement& placement);

/// Does `work` with this process's placement. An Error that it throws is logged with the rank, and becomes the exit
/// code of its kind.
int with_placement(const Environment& env, const std::function<int(const Placement&)>& work);

/// Returns how the recipe's ranks join. It gives the device, and the folder to use if no launcher gives rank 0's
/// address.
JoinOptions join_options(const Recipe& recipe, const std::filesystem::path& run_dir = {});

/// Joins all ranks of the run, and checks them against the recipe, by number of ranks, device, threads and equal
/// settings everywhere. `run_dir` is the run's folder. It is empty if there is none yet or if it is only read.
///
/// Collective: yes. Throws: Error(kEnvironment), Error(kRecipe), Error(kPeer).
Group join_ranks(const Recipe& recipe, const Placement& placement, const Environment& env,
                 const std::filesystem::path& run_dir = {});

}  // namespace lockstep
