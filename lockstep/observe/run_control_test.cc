// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/run_control.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

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
