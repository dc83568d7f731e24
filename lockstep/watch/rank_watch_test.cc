// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/rank_watch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

TEST(RankWatch, AddsUpTheLongestWaitOfAThreadForACore) {
  RankWatch watch;
  const auto wait_after = [&](std::map<pid_t, double> waits) {
    watch.look({{.rank = 0, .pid = 10, .state = 'S', .core_waits = std::move(waits)}}, Clock::now());
    return watch.ranks().at(0).core_wait_s;
  };
  EXPECT_EQ(wait_after({}), -1);
  EXPECT_EQ(wait_after({{1, 3.0}, {2, 7.0}}), 0);
  EXPECT_NEAR(wait_after({{1, 3.25}, {2, 7.75}}), 0.75, 1e-12);
  // Thread 1 has ended, and what a new thread waited for before this look is not known.
  EXPECT_NEAR(wait_after({{2, 8.0}, {3, 50.0}}), 1.0, 1e-12);
}

TEST(RankWatch, ReadsTheWaitsOfThreadsOfThisProcess) {
  EXPECT_TRUE(core_waits(::getpid()).contains(::getpid()));
  EXPECT_TRUE(core_waits(-1).empty());
}

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

/// Four ranks that train on a simulated clock. In one step of 200 one of them pauses, for less than its limit.
class HealthyRanks {
 public:
  explicit HealthyRanks(std::uint64_t seed) : random_(seed) {}

  /// Returns what the watch has said by the end of so many steps. It looks each second.
  std::vector<std::string> train(std::int64_t steps) {
    for (step_ = 0; step_ < steps; ++step_) {
      const bool has_pause = draw(200) == 0;
      if (!has_pause && next_look_s_ > now_s_ + kPhaseSeconds * kOrder.size()) {
        make_unseen_step();
        continue;
      }
      const int paused = has_pause ? draw(4) : -1;
      const int phase = draw(4);
      for (int at = 0; at < 4; ++at) make_phase(at, paused, at == phase);
      // The epoch's end: a validation that is longer than any step.
      if (step_ >= next_validation_) {
        make_validation();
        next_validation_ += 5000;
      }
    }
    return news_;
  }
  int pauses() const { return pauses_; }

 private:
  static constexpr std::array kOrder = {Phase::kLoading, Phase::kForward, Phase::kBackward, Phase::kUpdate};
  static constexpr double kPhaseSeconds = 0.02;
  static constexpr double kLongestSeconds = 8.9;  // A look may find it a second later than it is.

  int draw(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }

  // Nobody looks meanwhile, so the sums are enough.
  void make_unseen_step() {
    for (auto& page : pages_) {
      page.changes += kOrder.size();
      if (!page.spent_s) page.spent_s.emplace();
      for (const auto phase : kOrder) {
        ++page.entered[static_cast<std::size_t>(phase)];
        (*page.spent_s)[static_cast<std::size_t>(phase)] += kPhaseSeconds;
      }
      page.phase = kOrder.back();
      page.step = step_;
      page.collective.number = static_cast<std::uint64_t>(step_) + 1;
    }
    now_s_ += kPhaseSeconds * kOrder.size();
  }

  // All ranks pass a phase; the others wait in backward while one pauses in what comes before it.
  void make_phase(int at, int paused, bool is_paused_here) {
    const auto phase = kOrder.at(static_cast<std::size_t>(at));
    for (int rank = 0; rank < 4; ++rank) note(rank, phase);
    pass(kPhaseSeconds);
    if (paused < 0 || !is_paused_here) return;
    ++pauses_;
    const double pause = kLongestSeconds * static_cast<double>(random_() % 1000) / 1000;
    const bool is_stopped = draw(3) == 0;
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != paused) note(rank, Phase::kBackward);
    }
    if (is_stopped) states_.at(static_cast<std::size_t>(paused)) = 'T';
    pass(pause);
    states_.at(static_cast<std::size_t>(paused)) = 'S';
  }
  void make_validation() {
    for (int batch = 0; batch < 30; ++batch) {
      for (int rank = 0; rank < 4; ++rank) note(rank, Phase::kValidation);
      pass(2);
    }
    for (int rank = 0; rank < 4; ++rank) note(rank, Phase::kSaving);
    pass(6);
  }
  void note(int rank, Phase phase) {
    auto& page = pages_.at(static_cast<std::size_t>(rank));
    page.step = step_;
    page.phase = phase;
    ++page.changes;
    ++page.entered.at(static_cast<std::size_t>(phase));
    if (phase == Phase::kBackward && page.collective.number <= static_cast<std::uint64_t>(step_)) {
      page.collective = {.number = static_cast<std::uint64_t>(step_) + 1, .what = "all_reduce Float", .elements = 9};
    }
  }
  void pass(double seconds) {
    const double until = now_s_ + seconds;
    while (next_look_s_ <= until) {
      spend(next_look_s_ - now_s_);
      now_s_ = next_look_s_;
      look();
      next_look_s_ += 1;
    }
    spend(until - now_s_);
    now_s_ = until;
  }
  void spend(double seconds) {
    for (auto& page : pages_) {
      if (!page.spent_s) page.spent_s.emplace();
      page.spent_s->at(static_cast<std::size_t>(page.phase)) += seconds;
    }
  }
  void look() {
    std::vector<WatchedRank> ranks;
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      ranks.push_back({.rank = static_cast<int>(i),
                       .pid = static_cast<pid_t>(10 + i),
                       .page = pages_.at(i),
                       .state = states_.at(i),
                       .core_waits = {}});
    }
    watch_.look(ranks,
                Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(now_s_))));
    if (const auto said = watch_.news()) news_.push_back(*said);
  }

  std::mt19937_64 random_;
  std::array<PageSight, 4> pages_{};
  std::array<char, 4> states_{'S', 'S', 'S', 'S'};
  std::int64_t step_ = 0;
  std::int64_t next_validation_ = 4999;
  int pauses_ = 0;
  double now_s_ = 0;
  double next_look_s_ = 1;
  RankWatch watch_{"n1"};
  std::vector<std::string> news_;
};

TEST(RankWatches, SayNothingInAMillionHealthySteps) {
  HealthyRanks ranks(11);
  const auto news = ranks.train(1'000'000);
  EXPECT_TRUE(news.empty()) << news.size() << ", first: " << news.front();
  EXPECT_GT(ranks.pauses(), 4000);
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
