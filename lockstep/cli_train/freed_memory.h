// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"

namespace lockstep {

/// Lets this process keep the memory that it frees, for what it allocates next. A training on processors frees its
/// activations in each step and wants as many in the next one. With glibc's defaults it gives them back to the system
/// and takes a page fault for each 4 KiB again: 150 to 490 in a step of MNIST's network, a third of its time.
///
/// A process that trains never needs less memory than in its largest step, so nothing is lost. Blocks above 32 MiB, the
/// most that glibc allows here, still go back. Does nothing if the user has set malloc by environment variables, or if
/// this is not glibc. Call it before the first large allocation.
/// Source: mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.
void keep_freed_memory(const Environment& env);

}  // namespace lockstep
