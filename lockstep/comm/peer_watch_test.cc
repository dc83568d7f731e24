// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/peer_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/leave_on_failure.h"
#include "tests/support/lost_rank.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(WatchedRanks, AreATreeAndWatchEachOther) {
  EXPECT_EQ(watched_by(0, 1), (std::vector<int>{}));
  EXPECT_EQ(watched_by(0, 7), (std::vector<int>{1, 2}));
  EXPECT_EQ(watched_by(2, 7), (std::vector<int>{0, 5, 6}));
  EXPECT_EQ(watched_by(2, 6), (std::vector<int>{0, 5}));
  for (int rank = 1; rank < 1000; ++rank) {
    const auto parent = watched_by(rank, 1000).front();
    EXPECT_LT(parent, rank);
    const auto back = watched_by(parent, 1000);
    EXPECT_NE(std::find(back.begin(), back.end(), rank), back.end()) << rank;
  }
}

std::optional<LostPeer> lost_within(PeerWatch& watch, std::chrono::milliseconds limit) {
  const auto start = Clock::now();
  for (;;) {
    if (const auto lost = watch.find_lost(); lost || Clock::now() - start > limit) return lost;
    std::this_thread::yield();
  }
}

void expect_lost(PeerWatch& watch, int rank, const std::string& reason) {
  const auto lost = lost_within(watch, std::chrono::seconds(30));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, rank);
  EXPECT_EQ(lost->reason, reason);
}

TEST(PeerWatch, NoticesAProcessThatIsKilledAndNoneThatEndsWell) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 4, .statuses = {{3, 128 + SIGKILL}}});
  testing::begin_rank();
  auto group = join();
  PeerWatch watch(*group.impl().process->getBackend(c10::DeviceType::CPU));
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(watch.find_lost());
    group.all_gather(i);
  }
  const int rank = group.rank();
  if (rank == 3) std::raise(SIGKILL);
  // Rank 3 has rank 1 as its parent, and no child.
  if (rank == 1) {
    expect_lost(watch, 3, "");
    return;  // It tells nobody that it ends.
  }
  if (rank == 2) return watch.end_well();
  expect_lost(watch, 1, "");
}

// Rank 0 serves the store. When it has left because of rank 1, rank 2 can ask nobody who was lost.
TEST(PeerWatch, BringsTheReasonOfAPeerWhoseProcessHasEnded) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 3, .statuses = {{1, 128 + SIGKILL}}});
  testing::begin_rank();
  auto group = join();
  PeerWatch watch(*group.impl().process->getBackend(c10::DeviceType::CPU));
  const auto pids = group.all_gather(::getpid());
  const int rank = group.rank();
  if (rank == 1) std::raise(SIGKILL);
  if (rank == 0) {
    expect_lost(watch, 1, "");
    watch.leave("rank 1 is lost: " + std::string(300, '.'));
    watch.leave("a second reason");
    watch.end_well();
    std::_Exit(0);
  }
  pollfd end{.fd = static_cast<int>(::syscall(SYS_pidfd_open, pids[0], 0)), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&end, 1, 30'000), 1);
  expect_lost(watch, 0, "rank 1 is lost: " + std::string(239, '.'));
  expect_lost(watch, 0, "rank 1 is lost: " + std::string(239, '.'));
}

void expect_a_collective_to_name(int lost, bool has_watch) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 4, .statuses = {{lost, 128 + SIGKILL}}});
  testing::begin_rank();
  auto group = join();
  auto& impl = group.impl();
  auto& gloo = *impl.gloo;
  if (has_watch) impl.peers = std::make_unique<PeerWatch>(gloo);
  EXPECT_EQ(closed_connections(gloo), std::vector<int>{});
  group.all_gather(0);
  if (group.rank() == lost) std::raise(SIGKILL);
  const auto said = testing::message_of(ErrorKind::kPeer, [&] {
    leave_on_failure(group, [&] {
      for (;;) group.all_gather(0);
    });
  });
  EXPECT_TRUE(testing::names_lost(said, "added up a tensor", lost)) << said;
  if (has_watch) EXPECT_HAS(said, ", rank " + std::to_string(lost) + " is gone: ");
}

TEST(ACollectiveThatFails, NamesAKilledRankOnEveryOther) { expect_a_collective_to_name(3, /*has_watch=*/false); }

TEST(ACollectiveThatFails, NamesTheKilledRankThatServedTheStore) {
  expect_a_collective_to_name(0, /*has_watch=*/false);
}

// Where ranks compute on devices, a collective of their hosts can be the first to fail after a death.
TEST(ACollectiveThatFails, NamesAKilledRankThatAnotherRankWatches) {
  expect_a_collective_to_name(3, /*has_watch=*/true);
}

}  // namespace
}  // namespace lockstep
