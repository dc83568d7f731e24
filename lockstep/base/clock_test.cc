// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/clock.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::seconds;

TEST(Clock, SecondsBetweenKeepsFractionsAndSign) {
  const Clock::time_point from{};
  EXPECT_DOUBLE_EQ(seconds_between(from, from + std::chrono::milliseconds(1500)), 1.5);
  EXPECT_DOUBLE_EQ(seconds_between(from + seconds(2), from), -2.0);
}

TEST(Clock, HoursGrowPastTwoDigits) {
  EXPECT_EQ(hh_mm_ss(seconds(0)), "00:00:00");
  EXPECT_EQ(hh_mm_ss(seconds(3661)), "01:01:01");
  EXPECT_EQ(hh_mm_ss(seconds(100 * 3600 + 59)), "100:00:59");
}

TEST(Clock, UtcStampSortsByTime) {
  EXPECT_EQ(utc_stamp(std::chrono::system_clock::time_point{}), "19700101-000000");
  EXPECT_EQ(utc_stamp(std::chrono::system_clock::from_time_t(1795251530)), "20261121-085850");
}

TEST(Clock, KnowsWhenThisProcessStarted) {
  const double first = seconds_since_process_start();
  EXPECT_GT(first, -0.02) << "the kernel counts in hundredths";
  EXPECT_LT(first, 3600);
  EXPECT_GE(seconds_since_process_start(), first);
}

}  // namespace
}  // namespace lockstep
