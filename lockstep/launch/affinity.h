// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/task_settings.h"
#include "lockstep/launch/topology.h"

namespace lockstep {

/// Where a task is to run, and why there.
struct Binding {
  CpuSet cpus{};
  std::string why{};       ///< "nearest to device 3 (0000:c6:00.0)", for the report.
  std::string warning{};   ///< What is not as it should be, and the way out; empty where all is well.
  bool is_change = false;  ///< Whether it differs from what the launcher left.
  bool may_widen = false;  ///< Whether it may hold CPUs outside of that: a site's own masks do.
};

/// The CPUs for one task: the union of the site's masks for all of its devices; else the CPUs nearest to those devices
/// among `allowed`, shared out if several tasks of the node have the same ones near; else `allowed` as it is. A task
/// never gets fewer CPUs than the launcher gave it (SLURM_CPUS_PER_TASK): fewer cores cost more than far ones.
///
/// Throws: Error(kEnvironment) if a mask is not a hexadecimal number.
Binding binding_of(const Placement& at, const Environment& env, const TaskSettings& settings, const Topology& topology,
                   const CpuSet& allowed);

/// Binds this process. Where the job's cgroup does not allow all of a site's mask, `allowed` is kept and the binding
/// returned says so.
Binding applied(const Binding& binding, const CpuSet& allowed);

/// "CPUs 1-7 (7 cores, NUMA 0), nearest to device 0 (0000:d1:00.0)".
std::string report_of(const Binding& binding, const Topology& topology);

/// Of `parts` equal shares of `cpus`, the one with this index: whole cores, the larger shares first. `sibling` is how
/// far apart the kernel numbers a core's threads, 0 where each has one.
CpuSet share_of(const CpuSet& cpus, int index, int parts, int sibling);

}  // namespace lockstep
