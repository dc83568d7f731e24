// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/clock.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep {

double seconds_since_process_start() {
  std::string stat;
  try {
    stat = text_of_file("/proc/self/stat");
  } catch (const Error&) {
    return 0;
  }
  // /proc/PID/stat has the command's name in brackets, and the name may hold spaces. So fields are counted from behind
  // it. Field 22, the 20th behind the name, is the start of the process in ticks since boot.
  // Source: proc(5).
  const auto fields = split(std::string_view(stat).substr(std::min(stat.size(), stat.rfind(')') + 2)), ' ');
  const auto ticks = fields.size() > 19 ? parsed_int<long long>(fields[19]) : std::nullopt;
  timespec now{};
  if (!ticks || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double since_boot = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  return since_boot - static_cast<double>(*ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string hh_mm_ss(std::chrono::seconds duration) {
  const long long total = duration.count();
  std::array<char, 48> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%02lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60);
  return buffer.data();
}

std::string utc_stamp(std::chrono::system_clock::time_point at) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> buffer{};
  std::strftime(buffer.data(), buffer.size(), "%Y%m%d-%H%M%S", &parts);
  return buffer.data();
}

std::optional<double> parsed_duration(std::string_view text) {
  double days = 0;
  if (const auto dash = text.find('-'); dash != std::string_view::npos && dash > 0) {
    const auto count = parsed_int<std::int32_t>(text.substr(0, dash));
    if (!count || *count < 0) return std::nullopt;
    days = *count;
    text.remove_prefix(dash + 1);
  } else if (text.find(':') == std::string_view::npos) {
    return parsed_double(text);
  }
  const auto parts = split(text, ':');
  if (parts.size() != 3) return std::nullopt;
  double seconds = days * 86400;
  const double units[] = {3600, 60, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto part = parsed_int<std::int32_t>(parts[i]);
    if (!part || *part < 0 || (i > 0 && *part > 59)) return std::nullopt;
    seconds += *part * units[i];
  }
  return seconds;
}

}  // namespace lockstep
