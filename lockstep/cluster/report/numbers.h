// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// Formats numbers for a report's sentences and tables.

/// Formats a duration as human_seconds() does, but 0 as "0 s", and negative ones such as "-1.2 s".
std::string seconds_text(double seconds);

/// Formats a share as "31 %", and below one percent as "0.4 %".
std::string percent_text(double share);

/// "1.45 times".
std::string times_text(double factor);

/// "2026-11-21 08:49:30 UTC".
std::string moment_text(double unix_seconds);

/// Formats four significant digits, such as "0.1185". "-" for nothing.
std::string number_text(const std::optional<double>& value);

/// "11.7 M", "9610".
std::string count_text(std::int64_t count);

}  // namespace lockstep
