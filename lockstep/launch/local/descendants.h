// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <vector>

namespace lockstep {

/// Kills every descendant of this process except `spare`, and waits until each has ended.
void end_descendants(const std::vector<pid_t>& spare);

/// Returns the ids of this process's children.
std::vector<pid_t> children_of_this_process();

}  // namespace lockstep
