// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/median.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Median, IsTheMiddleOneOrTheMeanOfTheTwoThere) {
  EXPECT_EQ(median_of({7}), 7);
  EXPECT_EQ(median_of({9, 1, 5}), 5);
  EXPECT_EQ(median_of({4, 1, 2, 9}), 3);
}

}  // namespace
}  // namespace lockstep
