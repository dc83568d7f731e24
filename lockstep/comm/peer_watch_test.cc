// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/peer_watch.h"

#include <gtest/gtest.h>

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

std::optional<int> lost_within(PeerWatch& watch, std::chrono::milliseconds limit) {
  const auto start = Clock::now();
  for (;;) {
    if (const auto lost = watch.find_lost(); lost || Clock::now() - start > limit) return lost;
    std::this_thread::yield();
  }
}

TEST(PeerWatch, NoticesAProcessThatIsKilledAndNoneThatEndsWell) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 4, .statuses = {{3, 128 + SIGKILL}}});
  testing::begin_rank();
  auto group = join();
  PeerWatch watch(*group.impl().process->getBackend(c10::DeviceType::CPU));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(watch.find_lost(), std::nullopt);
    group.all_gather(i);
  }
  const int rank = group.rank();
  if (rank == 3) std::raise(SIGKILL);
  // Rank 3 has rank 1 as its parent, and no child.
  if (rank == 1) {
    EXPECT_EQ(lost_within(watch, std::chrono::seconds(30)), 3);
    return;  // It tells nobody that it ends.
  }
  if (rank == 2) return watch.end_well();
  EXPECT_EQ(lost_within(watch, std::chrono::seconds(30)), 1);
}

}  // namespace
}  // namespace lockstep
