// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/task_settings.h"
#include "lockstep/launch/topology.h"

namespace lockstep {

/// The CPUs that a task should run on, and the reason.
struct Binding {
  CpuSet cpus{};
  std::string why{};       ///< "nearest to device 3 (0000:c6:00.0)", for the report.
  std::string warning{};   ///< A problem and the way out. Empty if all is well.
  bool is_change = false;  ///< True if it differs from the launcher's binding.
  bool may_widen = false;  ///< True if it may hold CPUs outside of that, as a site's own masks do.
};

/// Returns the CPUs for one task. First come the site's masks for all of its devices, joined. Without masks they are
/// the CPUs of `allowed` that are nearest to those devices. If the same CPUs are nearest for several tasks of the node,
/// the tasks divide them. Otherwise the result is `allowed`. A task never gets fewer CPUs than the launcher gave it
/// (SLURM_CPUS_PER_TASK), since fewer cores cost more than far ones.
///
/// Throws: Error(kEnvironment) if a mask is not a hexadecimal number.
Binding binding_of(const Placement& at, const Environment& env, const TaskSettings& settings, const Topology& topology,
                   const CpuSet& allowed);

/// Binds this process to the CPUs. If the job's cgroup does not allow all CPUs of a site's mask, the process keeps
/// `allowed`, and the returned binding says so.
Binding applied(const Binding& binding, const CpuSet& allowed);

/// "CPUs 1-7 (7 cores, NUMA 0), nearest to device 0 (0000:d1:00.0)".
std::string report_of(const Binding& binding, const Topology& topology);

/// Returns the share with this index of `parts` equal shares of `cpus`. Shares are whole cores, the larger ones first.
/// `sibling` is the distance between the kernel's numbers of a core's threads, 0 if each core has one.
CpuSet share_of(const CpuSet& cpus, int index, int parts, int sibling);

}  // namespace lockstep
