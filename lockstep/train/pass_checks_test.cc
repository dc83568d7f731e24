// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pass_checks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;

// Returns the batches after which a check was due, if each batch takes this long.
std::vector<int> checked_batches(Group& group, std::chrono::milliseconds batch, int batches) {
  Clock::time_point now;
  PassChecks checks(group, [&] { return now; });
  std::vector<int> checked;
  for (int i = 1; i <= batches; ++i) {
    now += batch;
    if (!checks.end_batch()) continue;
    checked.push_back(i);
    EXPECT_FALSE(checks.check({}).stop);
  }
  return checked;
}

TEST(PassChecks, ComeAfterTheFirstBatchAndThenByTime) {
  using std::chrono::milliseconds;
  auto group = one_rank();
  EXPECT_EQ(checked_batches(group, milliseconds(1), 40), (std::vector<int>{1, 17, 33}));
  EXPECT_EQ(checked_batches(group, milliseconds(100), 12), (std::vector<int>{1, 6, 11}));
  EXPECT_EQ(checked_batches(group, milliseconds(400), 4), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(checked_batches(group, milliseconds(9000), 4), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(checked_batches(group, milliseconds(0), 18), (std::vector<int>{1, 17}));
}

RANKS_TEST(PassChecks, GoByTheSlowestRank, 2) {
  const std::chrono::milliseconds own(group.rank() == 1 ? 100 : 1);
  EXPECT_EQ(checked_batches(group, own, 12), (std::vector<int>{1, 6, 11}));
}

RANKS_TEST(PassChecks, TellAStopAndAFailureOfAnyRank, 2) {
  Clock::time_point now;
  PassChecks checks(group, [&] { return now; });
  const bool is_other = group.rank() == 1;
  auto any = checks.check({.stop = is_other});
  EXPECT_TRUE(any.stop);
  EXPECT_FALSE(any.failure);
  any = checks.check({.failure = is_other});
  EXPECT_FALSE(any.stop);
  EXPECT_TRUE(any.failure);
}

// Rank 1 fails in its third batch, and rank 0 comes to the check after its 17th.
RANKS_TEST(PassChecks, MeetARankThatFailedBetweenThem, 2) {
  Clock::time_point now;
  PassChecks checks(group, [&] { return now; });
  int batches = 0;
  while (true) {
    if (group.rank() == 1 && batches == 2) {
      EXPECT_TRUE(checks.check({.failure = true}).failure);
      break;
    }
    ++batches;
    if (checks.end_batch() && checks.check({}).failure) break;
  }
  EXPECT_EQ(batches, group.rank() == 1 ? 2 : 17);
}

RANKS_TEST(RethrowOnEveryRank, GivesOneRankItsOwnExceptionAndTheOthersItsName, 2) {
  rethrow_on_every_rank(group, nullptr);
  const auto own = group.rank() == 1 ? std::make_exception_ptr(Error(ErrorKind::kData, "label 9, want less than 3"))
                                     : std::exception_ptr();
  const auto text = message_of(ErrorKind::kData, [&] { rethrow_on_every_rank(group, own); });
  EXPECT_TRUE(text.starts_with(group.rank() == 1 ? "label 9" : "rank 1: label 9")) << text;
  const auto foreign = group.rank() == 1 ? std::make_exception_ptr(std::out_of_range("bad")) : std::exception_ptr();
  if (group.rank() == 1) {
    EXPECT_THROW(rethrow_on_every_rank(group, foreign), std::out_of_range);
  } else {
    EXPECT_THROW(rethrow_on_every_rank(group, foreign), Error);
  }
}

}  // namespace
}  // namespace lockstep
