// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/billing.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(BilledText, HasNoZerosThatSayNothing) {
  EXPECT_EQ(billed_text(0.5, "node-hours"), "0.5 node-hours");
  EXPECT_EQ(billed_text(0.01122, "node-hours"), "0.01122 node-hours");
  EXPECT_EQ(billed_text(4, "GPU-hours"), "4 GPU-hours");
  EXPECT_EQ(billed_text(48.125, "core-hours"), "48.12 core-hours");
  EXPECT_EQ(billed_text(100, "core-hours"), "100 core-hours");
  EXPECT_EQ(billed_text(0, "core-hours"), "0 core-hours");
}

}  // namespace
}  // namespace lockstep
