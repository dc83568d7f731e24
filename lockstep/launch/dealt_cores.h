// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the CPUs that Slurm has bound each task of this node to, by local rank. Empty if Slurm did not bind the
/// tasks one by one.
///
/// Source: srun(1), SLURM_CPU_BIND_LIST and SLURM_CPU_BIND_TYPE; slurmd 22.05 lists the masks of its own choice there
/// too.
std::vector<CpuSet> cpus_bound_by_slurm(const Environment& env);

/// Assigns the CPU sets of a node to its tasks again, so that each set goes to a task whose devices are near to it.
/// Slurm assigns them socket by socket in turn, without regard to the devices. A task keeps its set if no other set is
/// nearer to its devices.
///
/// Every task of the node computes the same assignment, so no two tasks take the same set.
///
/// Shape:  `given` and `near` are [n], by local rank; returns as many.
std::vector<CpuSet> deal_cores(const std::vector<CpuSet>& given, const std::vector<CpuSet>& near);

}  // namespace lockstep
