// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/job_clock.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

JobClock::Time at(int seconds) { return JobClock::Time(std::chrono::seconds(seconds)); }

TEST(JobClock, WithoutTheVariableTheTimeIsNeverUp) {
  EXPECT_FALSE(JobClock(Environment()).is_time_to_stop(at(2000000000), 1000, 1000));
  EXPECT_FALSE(JobClock(Environment({{"LOCKSTEP_JOB_END", ""}})).end());
}

TEST(JobClock, LeavesRoomForTwoSavesTwoStepsAndHalfAMinute) {
  const JobClock clock(Environment({{"LOCKSTEP_JOB_END", "10000"}}));
  EXPECT_FALSE(clock.is_time_to_stop(at(9969), 0, 0));
  EXPECT_TRUE(clock.is_time_to_stop(at(9970), 0, 0));
  EXPECT_FALSE(clock.is_time_to_stop(at(9909), 10, 20));
  EXPECT_TRUE(clock.is_time_to_stop(at(9910), 10, 20));
  EXPECT_TRUE(clock.is_time_to_stop(at(10001), 0, 0));
}

TEST(JobClock, RefusesWhatIsNoTime) {
  for (const auto* text : {"soon", "-5", "0", "12.5", "99999999999999999999"}) {
    EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { JobClock(Environment({{"LOCKSTEP_JOB_END", text}})); }), text);
  }
}

}  // namespace
}  // namespace lockstep
