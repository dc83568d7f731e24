// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/flux.h"

#include "lockstep/base/error.h"
#include "lockstep/launch/placement/sources.h"

namespace lockstep {

std::optional<Placement> placement_from_flux(const Environment& env) {
  // A shell of `flux alloc` has the variable FLUX_URI, but it is not a task.
  if (!env.get("FLUX_TASK_RANK")) return std::nullopt;
  Placement at;
  at.source = "flux";
  at.rank = required_int(env, "FLUX_TASK_RANK", "FLUX_JOB_SIZE");
  at.world = required_int(env, "FLUX_JOB_SIZE", "FLUX_TASK_RANK");
  at.local_rank = required_int(env, "FLUX_TASK_LOCAL_ID", "FLUX_TASK_RANK");
  const int nodes = required_int(env, "FLUX_JOB_NNODES", "FLUX_TASK_RANK");
  check_index("FLUX_TASK_RANK", at.rank, "FLUX_JOB_SIZE", at.world);
  check_index("FLUX_TASK_LOCAL_ID", at.local_rank, "FLUX_JOB_SIZE", at.world);
  check_count("FLUX_JOB_NNODES", nodes, "FLUX_JOB_SIZE", at.world);
  if (!spread_over_nodes(at, nodes)) {
    throw Error(ErrorKind::kEnvironment,
                "FLUX_TASK_LOCAL_ID='" + std::to_string(at.local_rank) +
                    "' fits neither a block nor a cyclic task map of " + std::to_string(at.world) + " tasks over " +
                    std::to_string(nodes) + " nodes",
                "start with flux run -N NODES -n TASKS and no --taskmap of your own");
  }
  at.job = env.get("FLUX_JOB_ID").value_or("");
  return at;
}

}  // namespace lockstep
