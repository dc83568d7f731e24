// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/numbers.h"

#include <chrono>
#include <cmath>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0 s";
  return seconds < 0 ? "-" + human_seconds(-seconds) : human_seconds(seconds);
}

std::string percent_text(double share) {
  const double percent = share * 100;
  return fixed(percent, percent != 0 && std::abs(percent) < 1 ? 1 : 0) + " %";
}

std::string times_text(double factor) { return fixed(factor, 2) + " times"; }

std::string moment_text(double unix_seconds) {
  const auto since =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::duration<double>(unix_seconds));
  const auto stamp = utc_stamp(std::chrono::system_clock::time_point(since));
  return stamp.substr(0, 4) + "-" + stamp.substr(4, 2) + "-" + stamp.substr(6, 2) + " " + stamp.substr(9, 2) + ":" +
         stamp.substr(11, 2) + ":" + stamp.substr(13, 2) + " UTC";
}

std::string number_text(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? significant(*value, 4) : "-";
}

std::string count_text(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fixed(value / 1e9, 2) + " G";
  if (count >= 1'000'000) return fixed(value / 1e6, 1) + " M";
  return std::to_string(count);
}

}  // namespace lockstep
