// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the CPUs that Slurm has bound each task of this node to, by local rank. Empty if it did not bind them one by
/// one.
///
/// Source: srun(1), SLURM_CPU_BIND_LIST and SLURM_CPU_BIND_TYPE; slurmd 22.05 lists the masks of its own choice there
/// too.
std::vector<CpuSet> cpus_bound_by_slurm(const Environment& env);

/// Distributes a node's CPU sets to its tasks again, each to a task whose devices it is near. Slurm distributes them
/// over the sockets in turn, whatever order the devices are in. A task keeps its own set if no other is nearer.
///
/// Every task of the node computes the same, so none gets what another keeps.
///
/// Shape:  `given` and `near` are [n], by local rank; returns as many.
std::vector<CpuSet> deal_cores(const std::vector<CpuSet>& given, const std::vector<CpuSet>& near);

}  // namespace lockstep
