// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Blocks SIGUSR1 and SIGUSR2, the warnings before a job's limit, in this thread and in the program that this process
/// becomes. Without a handler, they would end it. Slurm may send them to ranks that are still starting.
void hold_early_signal();

/// Unblocks them, and a pending one arrives now. Returns true if they were blocked.
bool release_early_signal();

}  // namespace lockstep
