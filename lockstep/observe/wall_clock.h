// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

namespace lockstep {

/// A function that returns the time of day. It is passed as an argument, so that tests can pass their own.
using WallClock = std::function<std::chrono::system_clock::time_point()>;

/// Returns the seconds since 1970, rounded to milliseconds.
inline double unix_seconds(std::chrono::system_clock::time_point at) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch());
  return static_cast<double>(since.count()) / 1000;
}

}  // namespace lockstep
