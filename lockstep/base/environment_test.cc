// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(Environment, IsACopyOfTheProcessTakenOnce) {
  ::setenv("LOCKSTEP_TEST_VALUE", "a=b", 1);
  const auto env = Environment::of_process();
  ::setenv("LOCKSTEP_TEST_VALUE", "changed", 1);
  EXPECT_EQ(env.get("LOCKSTEP_TEST_VALUE"), "a=b");
  ::unsetenv("LOCKSTEP_TEST_VALUE");
}

TEST(Environment, AnEmptyVariableCountsAsUnset) {
  const Environment env{{"EMPTY", ""}, {"SET", "x"}};
  EXPECT_EQ(env.get("EMPTY"), std::nullopt);
  EXPECT_EQ(env.get("MISSING"), std::nullopt);
  EXPECT_EQ(env.get("SET"), "x");
  EXPECT_EQ(env.get_int("EMPTY"), std::nullopt);
}

TEST(Environment, GetIntNamesTheVariableAndItsValueWhereItIsNoNumber) {
  const Environment env{{"RANK", "3"}, {"WORLD_SIZE", "four"}, {"BIG", "99999999999"}};
  EXPECT_EQ(env.get_int("RANK"), 3);
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { env.get_int("WORLD_SIZE"); }),
             "WORLD_SIZE='four' is not a whole number");
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { env.get_int("BIG"); }), "BIG='99999999999'");
}

TEST(Expanded, ReplacesNamesBracedNamesAndALeadingTilde) {
  const Environment env{{"HOME", "/home/x"}, {"A", "1"}, {"AB_2", "two"}};
  EXPECT_EQ(expanded("~/data", env), "/home/x/data");
  EXPECT_EQ(expanded("~", env), "/home/x");
  EXPECT_EQ(expanded("/$A/${A}B/$AB_2", env), "/1/1B/two");
  EXPECT_EQ(expanded("$A$A", env), "11");
}

TEST(Expanded, LeavesWhatNamesNoVariableAlone) {
  const Environment env{{"HOME", "/home/x"}};
  for (const char* text : {"", "plain", "a~b", "/~", "~user/x", "cost$", "$/x", "${", "${}", "${HOME"}) {
    EXPECT_EQ(expanded(text, env), text);
  }
}

TEST(Expanded, DoesNotExpandWhatAValueHolds) { EXPECT_EQ(expanded("$A", {{"A", "$B"}, {"B", "no"}}), "$B"); }

TEST(Expanded, NamesTheVariableThatIsNotSet) {
  const auto text = message_of(ErrorKind::kRecipe, [] { expanded("$SCRATCH/runs", {}); });
  EXPECT_HAS(text, "'$SCRATCH/runs' names $SCRATCH, which is not set");
  EXPECT_HAS(text, "hint: set SCRATCH");
}

}  // namespace
}  // namespace lockstep
