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

/// Seconds since the kernel started this process, to a hundredth; 0 where /proc does not tell.
double seconds_since_process_start();

/// A duration as Slurm writes it, "HH:MM:SS"; hours grow past two digits where they must.
std::string hh_mm_ss(std::chrono::seconds duration);

/// Seconds of "90", of "01:30:00" or, as Slurm writes days, of "1-12:00:00"; nothing for what is none of these.
std::optional<double> parsed_duration(std::string_view text);

/// "20261121-084930": UTC, sorts by name, fit for a folder.
std::string utc_stamp(std::chrono::system_clock::time_point at);

}  // namespace lockstep
