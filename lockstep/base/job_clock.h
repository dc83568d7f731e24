// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Knows when the job's time is up, from LOCKSTEP_JOB_END, which the job's script exports in seconds since 1970.
class JobClock {
 public:
  using Time = std::chrono::system_clock::time_point;

  JobClock() = default;
  /// Without the variable the time is never up. Throws: Error(kUsage) for a value that is not a time.
  explicit JobClock(const Environment& env);

  std::optional<Time> end() const { return end_; }

  /// True if a training must stop now for its last save to be complete in time. The margin before the job's end is
  /// twice the longest save so far, two steps and half a minute. Two steps, since a stop takes effect one or two steps
  /// later.
  bool is_time_to_stop(Time now, double longest_save_s, double longest_step_s) const;

 private:
  std::optional<Time> end_;
};

}  // namespace lockstep
