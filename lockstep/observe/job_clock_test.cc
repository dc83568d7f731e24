// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/job_clock.h"

#include <gtest/gtest.h>

#include "lockstep/observe/run_control.h"
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

TEST(RunControl, ATimeThatIsPastWasAnotherJobs) {
  const RunControl control({}, Environment({{"LOCKSTEP_JOB_END", "10000"}}));
  EXPECT_EQ(control.reason_to_stop(1.0), "");
}

TEST(RunControl, TakesOneStepHoweverLateItIs) {
  const auto soon =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count() +
      20;
  const RunControl control({}, Environment({{"LOCKSTEP_JOB_END", std::to_string(soon)}}));
  EXPECT_EQ(control.reason_to_stop(std::nullopt), "");
  EXPECT_EQ(control.reason_to_stop(0.0), "job_end");
}

}  // namespace
}  // namespace lockstep
