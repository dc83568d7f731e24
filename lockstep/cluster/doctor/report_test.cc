// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/report.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(DoctorReport, SaysWithoutFindingsHowMuchWasLookedAt) {
  EXPECT_EQ(text_of({}, {.node = 8, .job = 3, .run = 0}),
            "nothing found: 8 checks of the node, 3 of the job, none of a run folder (name one with --run RUN)\n");
  EXPECT_EQ(text_of({}, {.node = 8, .job = 3, .run = 3}, 16),
            "nothing found: on each of 16 tasks 8 checks of the node, 3 of the job, 3 of the run folder and logs\n");
}

TEST(DoctorReport, CountsChecksOfARunOnlyIfOneIsNamed) {
  EXPECT_EQ(checks_of({}).run, 0);
  EXPECT_EQ(checks_of({.logs = {"nccl.log"}}).run, 1);
  const auto all = checks_of({.run_dir = "run"});
  EXPECT_EQ(all.run, 3);
  EXPECT_EQ(all.node, 10);
  EXPECT_EQ(all.job, 4);
}

}  // namespace
}  // namespace lockstep
