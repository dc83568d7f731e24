// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Keeps SIGUSR1 and SIGUSR2, the warnings before a job's limit, waiting in this thread and in what this process
/// becomes: until a handler stands, they would end it. Slurm may send them to ranks that are only starting.
void hold_early_signal();

/// Lets them come; one that was waiting comes now. Returns true if they were held.
bool release_early_signal();

}  // namespace lockstep
