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
#include "tests/support/ranks.h"

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

}  // namespace
}  // namespace lockstep
