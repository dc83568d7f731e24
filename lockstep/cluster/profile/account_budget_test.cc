// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/account_budget.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr std::string_view kSaid =
    " project_1||cpu=6000,node=1200,gres/gpu=60000|cpu=100,mem=5,node=300,gres/gpu=15000\n"
    "  project_1|me|cpu=1|cpu=1\n";

TEST(AccountBudgets, AreTheAccountsOwnInTheSitesUnit) {
  const auto devices = parsed_budget(kSaid, "project_1", "GPU-hours");
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->granted, 1000);
  EXPECT_EQ(devices->left(), 750);
  EXPECT_EQ(parsed_budget(kSaid, "project_1", "node-hours")->left(), 15);
  EXPECT_EQ(parsed_budget(kSaid, "project_1", "core-hours")->granted, 100);
}

TEST(AccountBudgets, AreNothingWithoutALimit) {
  EXPECT_FALSE(parsed_budget("project_1|||cpu=5\n", "project_1", "core-hours"));
  EXPECT_FALSE(parsed_budget(kSaid, "project_2", "core-hours"));
  EXPECT_FALSE(parsed_budget("", "project_1", "core-hours"));
  EXPECT_FALSE(account_budget("", "core-hours", Environment({})));
}

}  // namespace
}  // namespace lockstep
