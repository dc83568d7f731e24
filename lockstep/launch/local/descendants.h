// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <vector>

namespace lockstep {

/// Kills every descendant that hangs below this process, except `spare`, and waits for it.
void end_descendants(const std::vector<pid_t>& spare);

/// The processes whose parent is this one.
std::vector<pid_t> children_of_this_process();

}  // namespace lockstep
