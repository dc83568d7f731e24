// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/healing.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

const Clock::time_point kStart = Clock::now();

TEST(Healing, LeavesOutEndsThatTheNextProcessWouldShare) {
  for (const int code : {0, 2, 3, 5, 7, 75}) EXPECT_FALSE(Healing::is_curable(code)) << code;
  for (const int code : {1, 4, 6, 137, 139, 134}) EXPECT_TRUE(Healing::is_curable(code)) << code;
}

TEST(Healing, RefusesARankThatDiesTwiceWithinTheWindow) {
  Healing healing({.most = 100, .window = seconds(60)});
  EXPECT_FALSE(healing.refusal(1, kStart));
  EXPECT_FALSE(healing.refusal(0, kStart + seconds(1)));
  EXPECT_EQ(healing.refusal(1, kStart + seconds(60)), "it died twice within 60 s (trainer.heal_window)");
  EXPECT_FALSE(healing.refusal(0, kStart + seconds(62)));
  EXPECT_EQ(healing.count(), 3);
}

TEST(Healing, HasALimitForTheWholeRun) {
  Healing healing({.most = 2, .window = seconds(0)});
  EXPECT_FALSE(healing.refusal(0, kStart));
  EXPECT_FALSE(healing.refusal(0, kStart));
  EXPECT_EQ(healing.refusal(0, kStart), "2 ranks were started again in this run, want at most 2 (trainer.heal_limit)");
}

}  // namespace
}  // namespace lockstep
