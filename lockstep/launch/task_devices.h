// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// Returns which of the `visible` devices this task should use, as indices into them.
///
/// A task that is alone on its node uses all of them, and so does a task to which Slurm shows devices of its own.
/// Several tasks that see the same devices get equal, contiguous parts of them by local rank. If they cannot share
/// evenly, each gets the one with its local rank. Empty if the node has fewer devices than tasks.
std::vector<int> device_indices(const Placement& at, const Environment& env, int visible);

/// Returns the numbers of the task's own devices on its node of `on_node` devices. Empty if they are unknown. The only
/// device of a task in a cgroup is always 0, and names such as "GPU-8a1c" have no number.
///
/// The order is that of the variable which the program will read. If that variable counts within a cgroup, the numbers
/// on the node come from SLURM_STEP_GPUS.
std::vector<int> device_numbers(const Placement& at, const Environment& env, int on_node);

}  // namespace lockstep
