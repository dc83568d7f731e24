// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/rank_watch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

TEST(PhaseHistories, GiveALimitOfFiveTimesTheLongestButOnePercent) {
  PhaseHistory history;
  EXPECT_EQ(history.limit_s(Phase::kLoading, 19), 600) << "too few to know";
  EXPECT_EQ(history.limit_s(Phase::kLoading, 20), 10) << "all of them were short";
  for (int i = 1; i <= 4; ++i) history.add_long(Phase::kLoading, i);
  EXPECT_EQ(history.limit_s(Phase::kLoading, 99), 20);
  EXPECT_EQ(history.limit_s(Phase::kLoading, 100), 15) << "one percent is left out";
  EXPECT_EQ(history.limit_s(Phase::kLoading, 1000), 10);
  EXPECT_EQ(history.limit_s(Phase::kBackward, 100), 10);
}

/// Two ranks whose pages a test writes.
class RankWatchTest : public ::testing::Test {
 protected:
  void note(int rank, Phase phase, std::uint64_t begun) {
    auto& page = pages_.at(static_cast<std::size_t>(rank));
    ++page.changes;
    ++page.entered.at(static_cast<std::size_t>(page.phase = phase));
    page.collective = {.number = begun, .what = "all_reduce Float", .elements = 4};
  }
  /// Both take steps, one in each second.
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      for (int rank = 0; rank < 2; ++rank) {
        for (const auto phase : {Phase::kLoading, Phase::kForward, Phase::kBackward}) note(rank, phase, begun_ + 1);
      }
      ++begun_;
      look();
    }
  }
  void look(seconds later = seconds(1)) {
    now_ += later;
    std::vector<WatchedRank> ranks;
    for (int i = 0; i < 2; ++i) {
      const auto index = static_cast<std::size_t>(i);
      ranks.push_back({.rank = i, .pid = 10 + i, .page = pages_.at(index), .state = states_.at(index)});
    }
    watch_.look(ranks, now_);
    if (const auto news = watch_.news()) news_.push_back(*news);
  }
  void look_for(int times) {
    for (int i = 0; i < times; ++i) look();
  }

  std::array<PageSight, 2> pages_{};
  std::array<char, 2> states_{'S', 'S'};
  std::uint64_t begun_ = 0;
  Clock::time_point now_{};
  RankWatch watch_{"n1"};
  std::vector<std::string> news_;
};

TEST_F(RankWatchTest, SaysOnceWhoIsLateAndOnceThatItGoesOn) {
  train(30);
  EXPECT_TRUE(news_.empty());
  note(0, Phase::kBackward, begun_ + 1);
  note(1, Phase::kLoading, begun_);
  look_for(30);
  ASSERT_EQ(news_.size(), 1U);
  EXPECT_HAS(news_[0], "rank 1 (process 11 on n1) is in loading of step 0 for 10 s");
  train(2);
  ASSERT_EQ(news_.size(), 2U);
  EXPECT_HAS(news_[1], "the ranks go on");
}

TEST_F(RankWatchTest, GivesTheFirstStepTenMinutes) {
  note(0, Phase::kStarting, 1);
  note(1, Phase::kStarting, 0);
  look_for(590);
  EXPECT_TRUE(news_.empty());
  look_for(20);
  EXPECT_EQ(news_.size(), 1U);
}

TEST_F(RankWatchTest, LearnsFromLongPhases) {
  train(30);
  for (int i = 0; i < 3; ++i) {
    note(0, Phase::kBackward, begun_ + 1);
    note(1, Phase::kLoading, begun_);
    look_for(8);
    train(10);
  }
  note(0, Phase::kBackward, begun_ + 1);
  note(1, Phase::kLoading, begun_);
  look_for(35);
  EXPECT_TRUE(news_.empty()) << "eight seconds were usual, so it may take forty";
  look_for(10);
  EXPECT_EQ(news_.size(), 1U);
}

TEST_F(RankWatchTest, BeginsAnewWhenTheJobWasSuspended) {
  train(30);
  states_ = {'T', 'T'};
  look_for(100);
  states_ = {'S', 'S'};
  look_for(9);
  EXPECT_TRUE(news_.empty());
  train(1);
  look(seconds(3600));
  look_for(8);
  EXPECT_TRUE(news_.empty()) << "this process was suspended itself";
}

TEST_F(RankWatchTest, NamesAFrozenRank) {
  train(30);
  states_[1] = 'T';
  note(0, Phase::kBackward, begun_ + 1);
  look_for(12);
  ASSERT_EQ(news_.size(), 1U);
  EXPECT_HAS(news_[0], "rank 1 (process 11 on n1) is stopped by a signal");
  states_[1] = 'S';
  train(1);
  EXPECT_EQ(news_.size(), 2U);
}

TEST(RankWatches, OfOneRankOfManyCountHowLongItIsStopped) {
  RankWatch watch("n1", /*sees_all=*/false);
  for (int i = 0; i < 12; ++i) {
    watch.look({{.rank = 3, .pid = 9, .page = std::nullopt, .state = i == 0 ? 'S' : 'T'}},
               Clock::time_point(seconds(i)));
  }
  EXPECT_EQ(watch.ranks().front().age_s, 10);
}

TEST(ProcessStates, AreThoseOfTheKernel) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ::kill(child, SIGSTOP);
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_EQ(process_state(child), 'T');
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  EXPECT_EQ(process_state(child), '?');
  EXPECT_EQ(process_state(::getpid()), 'R');
}

}  // namespace
}  // namespace lockstep
