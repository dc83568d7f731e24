// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace lockstep {

/// Asks `is_done` again and again until it says so, at once at first and then ever less often. `look`, where there is
/// one, is called ten times a second meanwhile; what it throws ends the wait.
void watched_wait(const std::function<bool()>& is_done, const std::function<void()>& look);

}  // namespace lockstep
