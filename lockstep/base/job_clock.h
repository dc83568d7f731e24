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
  /// If LOCKSTEP_JOB_END is unset, the time is never up. Throws: Error(kUsage) if its value is not a time.
  explicit JobClock(const Environment& env);

  std::optional<Time> end() const { return end_; }

  /// True if a training must stop now for its last save to be complete in time. It must stop before the job's end by
  /// twice the longest save so far, plus two steps, plus half a minute. The two steps are there because a stop takes
  /// effect one or two steps after this call.
  bool is_time_to_stop(Time now, double longest_save_s, double longest_step_s) const;

 private:
  std::optional<Time> end_;
};

}  // namespace lockstep
