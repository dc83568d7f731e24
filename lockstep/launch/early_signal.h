// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Keeps SIGUSR1, the warning before a job's limit, waiting in this thread and in what this process becomes: until a
/// handler stands, it would end it. Slurm may send it to ranks that are only starting.
void hold_early_signal();

/// Lets it come: now, where it was waiting.
void release_early_signal();

}  // namespace lockstep
