// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// The index of this process's device among those that its environment shows: 0 where it shows one, or several to this
/// task alone, `local_rank` where it shows several to all, nothing where it shows none or says nothing. Asks no
/// hardware.
///
/// Throws: Error(kEnvironment) if there are several for all, but fewer than local_world: on every rank of the node.
std::optional<int> visible_device(const Environment& env, int local_rank, int local_world);

/// True if Slurm started this task and has shown it devices of its own, as --gpus-per-task does.
///
/// Source: srun(1), --gpu-bind; SLURMD_TRES_BIND as slurmd 22.05 sets it.
bool shows_own_devices(const Environment& env, int local_rank);

}  // namespace lockstep
