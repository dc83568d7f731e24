// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

namespace lockstep {

/// Calls `is_done` until it returns true, at first without a pause and then ever less often. If given, `look` is called
/// ten times a second meanwhile, and an exception from it ends the wait. For the time `awake`, in which most steps end,
/// the thread keeps its core busy. After that it sleeps between calls.
void watched_wait(const std::function<bool()>& is_done, const std::function<void()>& look,
                  std::chrono::microseconds awake = std::chrono::microseconds(2000));

}  // namespace lockstep
