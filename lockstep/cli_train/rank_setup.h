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

/// What is this rank's own: the cores that it is bound to, or where it is bound to none an equal share of the node's.
OwnCores own_cores(const Placement& placement);

/// Opens each line with the rank, where there are several.
Log rank_log(const Placement& placement);

/// Does `work` with this process's placement. An Error that it throws is logged with the rank, and becomes the exit
/// code of its kind.
int with_placement(const Environment& env, const std::function<int(const Placement&)>& work);

/// Returns how the recipe's ranks join: on what device, and through which folder if no launcher gives rank 0's address.
JoinOptions join_options(const Recipe& recipe, const std::filesystem::path& run_dir = {});

/// Joins all ranks of the run, and checks that they are what the recipe asks for: number of ranks, device, threads, the
/// same settings everywhere. `run_dir` is the run's folder, empty if it has none yet or is only read.
///
/// Collective: yes. Throws: Error(kEnvironment), Error(kRecipe), Error(kPeer).
Group join_ranks(const Recipe& recipe, const Placement& placement, const Environment& env,
                 const std::filesystem::path& run_dir = {});

}  // namespace lockstep
