// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/verdict.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

RankSight rank(int number, Phase phase, std::uint64_t begun, double age_s) {
  return {.rank = number,
          .host = "n1",
          .pid = 100 + number,
          .state = 'S',
          .page = PageSight{.pid = 100 + number,
                            .phase = phase,
                            .step = 12,
                            .collective = {.number = begun, .what = "all_reduce Float", .elements = 1024}},
          .age_s = age_s,
          .limit_s = 10};
}

/// Four ranks in backward. A test changes rank 2.
std::vector<RankSight> four(const RankSight& odd, double age_s = 30) {
  std::vector<RankSight> ranks;
  for (int i = 0; i < 4; ++i) ranks.push_back(i == odd.rank ? odd : rank(i, Phase::kBackward, 57, age_s));
  return ranks;
}

TEST(Verdicts, AreNoneWhileNobodyIsLate) {
  EXPECT_EQ(verdict_on(four(rank(2, Phase::kLoading, 56, 9))), std::nullopt);
  EXPECT_EQ(verdict_on(four(rank(2, Phase::kBackward, 57, 1), 1)), std::nullopt);
  EXPECT_EQ(verdict_on({}), std::nullopt);
}

TEST(Verdicts, NameTheRankThatHasBegunTheFewestCollectives) {
  const auto verdict = verdict_on(four(rank(2, Phase::kLoading, 56, 34)));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, VerdictKind::kLate);
  EXPECT_EQ(verdict->ranks, std::vector<int>{2});
  EXPECT_EQ(verdict->text,
            "rank 2 (process 102 on n1) is in loading of step 12 for 34 s, it sleeps; ranks 0, 1, 3 wait in "
            "collective 57, all_reduce Float of 1024 elements");
}

TEST(Verdicts, LeaveAPhaseAsLongAsItMayTake) {
  auto saving = rank(0, Phase::kSaving, 56, 34);
  saving.limit_s = 60;
  EXPECT_EQ(verdict_on(four(saving)), std::nullopt) << "those that wait for it are not late";
}

TEST(Verdicts, NameAStoppedProcessFirst) {
  auto frozen = rank(1, Phase::kBackward, 57, 12);
  frozen.state = 'T';
  const auto verdict = verdict_on(four(frozen, 11));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, VerdictKind::kStopped);
  EXPECT_EQ(verdict->ranks, std::vector<int>{1});
  EXPECT_HAS(verdict->text, "rank 1 (process 101 on n1) is stopped by a signal for 12 s, in backward of step 12");
  frozen.state = 't';
  EXPECT_HAS(verdict_on(four(frozen, 11))->text, "is stopped by a debugger");
}

// A stopped rank may have begun a collective whose predecessor it has not sent yet.
TEST(Verdicts, BlameNobodyElseWhileAProcessIsStopped) {
  auto frozen = rank(2, Phase::kBackward, 57, 9.8);
  frozen.state = 'T';
  auto ranks = four(frozen, 9.9);
  ranks[1] = rank(1, Phase::kBackward, 56, 10.1);
  EXPECT_EQ(verdict_on(ranks), std::nullopt);
  ranks[2].age_s = 10;
  ASSERT_TRUE(verdict_on(ranks));
  EXPECT_EQ(verdict_on(ranks)->ranks, std::vector<int>{2});
}

TEST(Verdicts, AreNoneOnAJobThatIsStoppedAsAWhole) {
  auto ranks = four(rank(1, Phase::kBackward, 57, 100));
  for (auto& each : ranks) each.state = 'T';
  EXPECT_EQ(verdict_on(ranks), std::nullopt);
}

TEST(Verdicts, NameAStoppedProcessOfAProgramThatWritesNoPage) {
  std::vector<RankSight> ranks = {{.rank = 0, .pid = 7, .state = 'S', .age_s = 20},
                                  {.rank = 1, .pid = 8, .state = 'T', .age_s = 20}};
  ASSERT_TRUE(verdict_on(ranks));
  EXPECT_EQ(verdict_on(ranks)->ranks, std::vector<int>{1});
  ranks[1].state = 'S';
  EXPECT_EQ(verdict_on(ranks), std::nullopt) << "without pages nobody knows who waits for whom";
}

TEST(Verdicts, NameTheRankInAnotherCollectiveWithBoth) {
  auto odd = rank(3, Phase::kValidation, 57, 12);
  odd.page->collective = {.number = 57, .what = "broadcast float64", .elements = 8};
  const auto verdict = verdict_on(four(odd));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, VerdictKind::kApart);
  EXPECT_EQ(verdict->ranks, std::vector<int>{3});
  EXPECT_HAS(verdict->text, "rank 3 (process 103 on n1) is in collective 57, broadcast float64 of 8 elements");
  EXPECT_HAS(verdict->text, "ranks 0, 1, 2 in collective 57, all_reduce Float of 1024 elements");
  EXPECT_EQ(verdict_on(four(odd, 3)), std::nullopt) << "the others have just come there";
}

TEST(Verdicts, SayThatNobodyIsBehind) {
  auto ranks = four(rank(2, Phase::kBackward, 57, 31));
  const auto verdict = verdict_on(ranks);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, VerdictKind::kAllWait);
  EXPECT_EQ(verdict->ranks.size(), 4U);
  EXPECT_HAS(verdict->text, "no rank is behind, so look at the network");
  ranks[2].state = 'R';
  EXPECT_EQ(verdict_on(ranks), std::nullopt) << "one of them still computes";
}

TEST(Verdicts, CompareProgramsWithoutCollectivesByStepAndPhase) {
  std::vector<RankSight> ranks = {rank(0, Phase::kForward, 0, 40), rank(1, Phase::kLoading, 0, 40),
                                  rank(2, Phase::kForward, 0, 40)};
  const auto verdict = verdict_on(ranks);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->ranks, std::vector<int>{1});
  EXPECT_HAS(verdict->text,
             "rank 1 (process 101 on n1) is in loading of step 12 for 40 s, it sleeps; ranks 0, 2 are in "
             "forward of step 12");
}

TEST(Verdicts, JudgeARankAlone) {
  EXPECT_EQ(verdict_on({rank(0, Phase::kForward, 0, 9)}), std::nullopt);
  EXPECT_EQ(verdict_on({rank(0, Phase::kForward, 0, 11)})->ranks, std::vector<int>{0});
}

}  // namespace
}  // namespace lockstep
