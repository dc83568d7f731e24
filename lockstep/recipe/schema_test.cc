// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/schema.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/recipe/typed_value.h"

namespace lockstep {
namespace {

TEST(Schema, GivesEachDefaultTheTypeOfItsRow) {
  for (const auto& row : schema()) {
    if (row.fallback.empty() || row.fallback == kMustBeSet) continue;
    EXPECT_NO_THROW(default_value(row)) << row.key;
    EXPECT_EQ(toml_of(default_value(row)), row.type == SettingType::kText ? toml_quoted(row.fallback) : row.fallback)
        << row.key;
  }
}

TEST(Schema, AgreesOnTypeAndRuleAmongTheRowsOfOneKey) {
  for (const auto& row : schema()) {
    EXPECT_FALSE(row.help.empty()) << row.key;
    for (const auto* other : rows_of(row.key)) {
      EXPECT_EQ(row.type, other->type) << row.key;
      EXPECT_EQ(row.rule.holds, other->rule.holds) << row.key;
      EXPECT_EQ(row.role, other->role) << row.key;
    }
  }
}

TEST(Schema, TiesKeysOnlyToKeysAndNamesThatExist) {
  for (const auto& row : schema()) {
    for (const auto list : {row.ties.excludes, row.ties.yields_to, row.ties.same_as}) {
      for (const auto& key : words(list)) EXPECT_FALSE(rows_of(key).empty()) << row.key << " names " << key;
    }
    if (row.ties.only_for.empty()) continue;
    const auto selector = selector_of(table_of(row.key));
    ASSERT_TRUE(selector) << row.key;
    const auto names = words(rows_of(*selector).front()->rule.names);
    for (const auto& name : words(row.ties.only_for)) {
      EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << row.key << " names " << name;
    }
  }
}

TEST(Schema, KeepsTheRowsOfATableTogether) {
  const auto tables = setting_tables();
  EXPECT_EQ(tables, (std::vector<std::string>{"model", "data", "trainer", "loss", "metrics", "optimizer", "scheduler",
                                              "early_stopping", "guard", "snapshot", "observe", "cluster"}));
}

}  // namespace
}  // namespace lockstep
