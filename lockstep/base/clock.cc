// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/clock.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace lockstep {

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

}  // namespace lockstep
