// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

namespace lockstep {

/// Asks `is_done` again and again until it says so, at once at first and then ever less often. `look`, where there is
/// one, is called ten times a second meanwhile; what it throws ends the wait. The thread keeps its core busy for the
/// time `awake`, which most steps do not take, and sleeps between its questions from then on.
void watched_wait(const std::function<bool()>& is_done, const std::function<void()>& look,
                  std::chrono::microseconds awake = std::chrono::microseconds(2000));

}  // namespace lockstep
