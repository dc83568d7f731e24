// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/lsf.h"

#include "lockstep/launch/placement/sources.h"

namespace lockstep {

// jsrun, LSF's Job Step Manager, starts the tasks. LSF alone starts one process.
std::optional<Placement> placement_from_lsf(const Environment& env) {
  if (!env.get("JSM_NAMESPACE_RANK") && !env.get("JSM_NAMESPACE_SIZE")) return std::nullopt;
  return placement_from_variables(
      env, "lsf", {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"});
}

}  // namespace lockstep
