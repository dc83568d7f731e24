// SPDX-License-Identifier: Apache-2.0
#pragma once

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
int as_rank(const Environment& env, const std::function<int(const Placement&)>& work);

/// How the recipe's ranks join: on what device, and where they meet.
JoinOptions join_options(const Recipe& recipe, const Environment& env);

/// All ranks of the run, met, once this one is found to be what the recipe asks for: number of ranks, device, threads,
/// the same settings everywhere.
///
/// Collective: yes. Throws: Error(kEnvironment), Error(kRecipe), Error(kPeer).
Group met_for(const Recipe& recipe, const Placement& placement, const Environment& env);

}  // namespace lockstep
