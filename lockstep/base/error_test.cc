// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(Error, SaysTheFactThenTheHintOnALineOfItsOwn) {
  const Error error(ErrorKind::kIo, "open '/x' failed", "check the path");
  EXPECT_STREQ(error.what(), "open '/x' failed\n  hint: check the path");
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
}

TEST(Error, WithoutAHintIsOneLine) { EXPECT_STREQ(Error(ErrorKind::kData, "cut short").what(), "cut short"); }

TEST(Error, KeepsFactAndHintApart) {
  const Error error(ErrorKind::kIo, "open '/x' failed", "check the path");
  EXPECT_EQ(error.fact(), "open '/x' failed");
  EXPECT_EQ(error.hint(), "check the path");
  const Error alone(ErrorKind::kData, "cut short");
  EXPECT_EQ(alone.fact(), "cut short");
  EXPECT_EQ(alone.hint(), "");
}

TEST(Error, FindsTheHintBehindAFactThatLooksLikeOne) {
  const Error error(ErrorKind::kData, "line 1\n  hint: quoted", "the real one");
  EXPECT_EQ(error.fact(), "line 1\n  hint: quoted");
  EXPECT_EQ(error.hint(), "the real one");
  const Error copy = error;
  EXPECT_EQ(copy.hint(), "the real one");
}

TEST(Error, EachKindHasItsDocumentedExitCode) {
  EXPECT_EQ(exit_code(ErrorKind::kUsage), 2);
  EXPECT_EQ(exit_code(ErrorKind::kRecipe), 3);
  EXPECT_EQ(exit_code(ErrorKind::kEnvironment), 4);
  EXPECT_EQ(exit_code(ErrorKind::kData), 5);
  EXPECT_EQ(exit_code(ErrorKind::kIo), 6);
  EXPECT_EQ(exit_code(ErrorKind::kPeer), 7);
  EXPECT_EQ(exit_code(ErrorKind::kBug), 1);
  EXPECT_EQ(kExitStopped, 75);
}

TEST(Error, ABrokenPromiseNamesItsConditionAndPlaceWithoutTheBuildFolder) {
  const auto text = message_of(ErrorKind::kBug, [] { LOCKSTEP_ASSERT(1 + 1 == 3); });
  EXPECT_HAS(text, "broken promise: 1 + 1 == 3 (error_test.cc:");
  EXPECT_HAS(text, "please report it");
}

TEST(Error, AKeptPromiseCostsNothing) {
  int calls = 0;
  LOCKSTEP_ASSERT(++calls == 1);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace lockstep
