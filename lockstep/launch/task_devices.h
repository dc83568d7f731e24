// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// Returns the indices, among the `visible` devices that this task is shown, of those that are its own.
///
/// A task that is alone on its node has all of them, and so has one that Slurm shows separate devices. Several tasks
/// that see the same devices get equal, contiguous parts of them by local rank. If they cannot share evenly, each gets
/// the one with its local rank. Empty if there are fewer devices than tasks.
std::vector<int> device_indices(const Placement& at, const Environment& env, int visible);

/// Returns the numbers of the task's own devices on its node of `on_node` devices. Empty if they are unknown. The only
/// device of a task in a cgroup is always 0, and names such as "GPU-8a1c" have no number.
///
/// The list that the program will read decides, in its order. SLURM_STEP_GPUS has the numbers on the node if that list
/// counts within a cgroup.
std::vector<int> device_numbers(const Placement& at, const Environment& env, int on_node);

}  // namespace lockstep
