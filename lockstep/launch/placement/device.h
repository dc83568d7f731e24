// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// Returns the index of this process's device among those that its environment shows. The index is 0 if there is one
/// device, or if all devices are for this task alone. It is `local_rank` if all tasks of the node see the same devices.
/// Returns nothing if no variable shows a device. The hardware is not asked.
///
/// Throws: Error(kEnvironment) if there are several for all, but fewer than local_world: on every rank of the node.
std::optional<int> visible_device(const Environment& env, int local_rank, int local_world);

/// True if Slurm started this task and gave it separate devices, as --gpus-per-task does.
///
/// Source: srun(1), --gpu-bind; SLURMD_TRES_BIND as slurmd 22.05 sets it.
bool shows_own_devices(const Environment& env, int local_rank);

}  // namespace lockstep
