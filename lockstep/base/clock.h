// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

using Clock = std::chrono::steady_clock;

/// Seconds from `from` to `to`.
inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Returns the seconds since the kernel started this process, to a hundredth of a second. Returns 0 if /proc does not
/// report the start.
double seconds_since_process_start();

/// Formats a duration as Slurm does, "HH:MM:SS". Hours have more than two digits if needed.
std::string hh_mm_ss(std::chrono::seconds duration);

/// Parses "90", "01:30:00" or, as Slurm writes days, "1-12:00:00" into seconds. Returns nothing for any other form.
std::optional<double> parsed_duration(std::string_view text);

/// Formats a time in UTC as "20261121-084930", which sorts by time and is fit for a folder's name.
std::string utc_stamp(std::chrono::system_clock::time_point at);

}  // namespace lockstep
