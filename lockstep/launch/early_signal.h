// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Blocks SIGUSR1 and SIGUSR2, the warnings before a job's limit, in this thread and in the program that this process
/// becomes. Slurm may send them to ranks that are still starting and have no handler yet. Unblocked, they would end the
/// process.
void hold_early_signal();

/// Unblocks SIGUSR1 and SIGUSR2. One that is pending is delivered now. Returns true if they were blocked.
bool release_early_signal();

}  // namespace lockstep
