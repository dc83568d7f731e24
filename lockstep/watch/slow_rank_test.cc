// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/slow_rank.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

/// Four ranks. In each look a test says how a second of each was spent.
class SlowRankTest : public ::testing::Test {
 protected:
  SlowRankTest() {
    for (int i = 0; i < 4; ++i) {
      ranks_.push_back({.rank = i, .host = "n1", .pid = 10 + i, .state = 'S', .page = PageSight{.pid = 10 + i}});
      ranks_.back().page->phase = Phase::kForward;
      ranks_.back().page->spent_s.emplace();
      ranks_.back().core_wait_s = 0;
    }
  }
  void spend(int rank, Phase phase, double seconds, double without_core) {
    auto& own = ranks_.at(static_cast<std::size_t>(rank));
    own.page->spent_s->at(static_cast<std::size_t>(phase)) += seconds;
    own.core_wait_s += without_core;
  }
  /// A second in which all have computed a little, and `slow` as given.
  void look(double local, double without_core, Phase phase = Phase::kForward, int slow = 2) {
    for (int rank = 0; rank < 4; ++rank) {
      spend(rank, phase, rank == slow ? local : 0.05, rank == slow ? without_core : 0.02);
    }
    now_ += std::chrono::seconds(1);
    slow_.look(ranks_, now_);
  }
  void look_for(int times, double local, double without_core) {
    for (int i = 0; i < times; ++i) look(local, without_core);
  }

  std::vector<RankSight> ranks_;
  Clock::time_point now_{};
  SlowRanks slow_;
};

TEST_F(SlowRankTest, NamesTheRankThatHasNoCore) {
  look_for(20, 0.3, 0.9);
  EXPECT_FALSE(slow_.verdict()) << "a third of a minute is a pause";
  look_for(10, 0.3, 0.9);
  ASSERT_TRUE(slow_.verdict());
  EXPECT_EQ(slow_.verdict()->kind, VerdictKind::kSlow);
  EXPECT_EQ(slow_.verdict()->ranks, std::vector<int>{2});
  EXPECT_HAS(slow_.verdict()->text, "rank 2 (process 12 on n1) is slower than the others");
  EXPECT_HAS(slow_.verdict()->text, "has no core for 90 % of the time");
}

TEST_F(SlowRankTest, NamesTheRankThatLoadsAndComputesLonger) {
  for (int i = 0; i < 30; ++i) look(0.6, 0.02, Phase::kLoading);
  ASSERT_TRUE(slow_.verdict());
  EXPECT_HAS(slow_.verdict()->text, "it spends 60 % of the time in loading and forward");
}

TEST_F(SlowRankTest, LetsTheVerdictGoOnceTheRankIsAsFastAsTheOthers) {
  look_for(30, 0.3, 0.9);
  look_for(12, 0.05, 0.02);
  EXPECT_TRUE(slow_.verdict());
  look_for(10, 0.05, 0.02);
  EXPECT_FALSE(slow_.verdict());
}

TEST_F(SlowRankTest, SaysNothingWhereAllRanksShareTooFewCores) {
  for (int i = 0; i < 60; ++i) {
    for (int rank = 0; rank < 4; ++rank) spend(rank, Phase::kForward, 0.3, 0.4 + 0.1 * (rank == 1 ? 1 : 0));
    now_ += std::chrono::seconds(1);
    slow_.look(ranks_, now_);
    EXPECT_FALSE(slow_.verdict());
  }
}

TEST_F(SlowRankTest, SaysNothingOfPausesHoweverManyRanksHaveThem) {
  for (int i = 0; i < 600; ++i) {
    look(i % 20 < 9 ? 1.0 : 0.05, 0.02, Phase::kLoading, i / 20 % 4);
    EXPECT_FALSE(slow_.verdict());
  }
}

TEST_F(SlowRankTest, SaysNothingOfValidationAndSaves) {
  for (const auto phase : {Phase::kValidation, Phase::kSaving, Phase::kStarting}) {
    for (auto& each : ranks_) each.page->phase = phase;
    look_for(60, 0.6, 0.9);
    EXPECT_FALSE(slow_.verdict());
  }
}

TEST_F(SlowRankTest, SaysNothingOfPagesOfTheFirstVersion) {
  for (auto& each : ranks_) each.page->spent_s.reset();
  for (int i = 0; i < 40; ++i) {
    now_ += std::chrono::seconds(1);
    slow_.look(ranks_, now_);
  }
  EXPECT_FALSE(slow_.verdict());
}

TEST_F(SlowRankTest, BeginsAnewWithANewProcess) {
  look_for(30, 0.3, 0.9);
  ranks_[2].pid = 99;
  look_for(20, 0.3, 0.9);
  EXPECT_FALSE(slow_.verdict());
}

}  // namespace
}  // namespace lockstep
