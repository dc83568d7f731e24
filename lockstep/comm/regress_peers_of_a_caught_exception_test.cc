// SPDX-License-Identifier: Apache-2.0
// The fault: a rank that caught an exception kept its connections, so its peers waited half an hour for it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/leave_on_failure.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;

RANKS_TEST(LeaveOnFailure, TellsThePeersOfARankThatThrewAloneItsReason, 3) {
  const auto step = [&] {
    if (group.rank() == 1) throw Error(ErrorKind::kData, "'a.png' is damaged", "mend it");
    group.barrier();
  };
  const auto text =
      message_of(group.rank() == 1 ? ErrorKind::kData : ErrorKind::kPeer, [&] { leave_on_failure(group, step); });
  EXPECT_HAS(text, group.rank() == 1 ? "'a.png' is damaged" : "rank 1 left the others: 'a.png' is damaged");
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { group.barrier(); }), "this rank has left its group: ");
  // The first group still lives on every rank. So only the message of the rank that left can have ended the wait.
  auto again = join();
  again.barrier();
}

RANKS_TEST(LeaveOnFailure, TakesAnyException, 2) {
  const auto step = [&] {
    if (group.rank() == 0) throw std::runtime_error("odd\nwith a second line");
    group.barrier();
  };
  if (group.rank() == 0) {
    EXPECT_THROW(leave_on_failure(group, step), std::runtime_error);
  } else {
    const auto text = message_of(ErrorKind::kPeer, [&] { leave_on_failure(group, step); });
    EXPECT_HAS(text, "rank 0 left the others: odd\n");
  }
  join().barrier();
}

RANKS_TEST(LeaveOnFailure, KeepsTheGroupIfEveryRankThrows, 3) {
  for (int i = 0; i < 3; ++i) {
    message_of(ErrorKind::kUsage,
               [&] { leave_on_failure(group, [] { throw Error(ErrorKind::kUsage, "no", "yes"); }); });
    group.barrier();
  }
}

TEST(LeaveOnFailure, OfOneRankPassesTheExceptionOn) {
  auto group = one_rank();
  message_of(ErrorKind::kPeer, [&] { leave_on_failure(group, [] { throw Error(ErrorKind::kPeer, "no", "yes"); }); });
  EXPECT_THROW(leave_on_failure(group, [] { throw std::runtime_error("odd"); }), std::runtime_error);
  group.barrier();
}

TEST(Group, ACollectiveThatARankDoesNotComeToNamesTheTimeLimit) {
  if (!testing::is_rank()) {
    testing::expect_of_ranks({.world = 2});
    return;
  }
  testing::begin_rank();
  auto group = join({.collective_timeout = std::chrono::milliseconds(500)});
  if (group.rank() == 1) {
    message_of(ErrorKind::kPeer, [] { join({.join_timeout = std::chrono::milliseconds(1)}); });
    return;
  }
  const auto text = message_of(ErrorKind::kPeer, [&] { group.barrier(); });
  EXPECT_HAS(text, "did not answer in time");
  EXPECT_HAS(text, "trainer.collective_timeout");
}

}  // namespace
}  // namespace lockstep
