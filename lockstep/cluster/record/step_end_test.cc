// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/step_end.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

EndedStep step(int restart = 0) {
  return {.job = "7", .restart = restart, .code = 1, .seconds = 300, .tasks = 3, .nodes = {"n1", "n2", "n3"}};
}

RankExit rank(int number, int code, double time, int restart = 0) {
  return {.job = "7",
          .restart = restart,
          .rank = number,
          .node = "n" + std::to_string(number + 1),
          .code = code,
          .signal = code > 128 ? code - 128 : 0,
          .time = time};
}

TEST(StepEnd, LeavesOutTheNodeOfTheRankThatFailedFirst) {
  const auto verdict = decide_restart(step(), {.ranks = {rank(0, 143, 101), rank(1, 137, 100)}}, nullptr, 2);
  EXPECT_TRUE(verdict.is_again);
  EXPECT_EQ(verdict.nodes, (Names{"n1", "n3"}));
  EXPECT_EQ(verdict.reason,
            "the step is started again without n2 (restart 1 of 2): rank 1 on n2 ended first, by SIGKILL (137; often "
            "memory), 1.00 s before the others");
}

TEST(StepEnd, LooksAtItsOwnRanksAlone) {
  const ExitRecords records{.ranks = {rank(0, 1, 50), rank(2, 1, 100, 1)}};
  EXPECT_EQ(decide_restart(step(1), records, nullptr, 2).nodes, (Names{"n1", "n2"}));
}

TEST(StepEnd, LeavesOutWhatSlurmHasLostAndBelievesNoZeroThen) {
  auto ended = step();
  ended.code = 0;
  ended.lost = {"n1", "n3"};
  EXPECT_EQ(decide_restart(ended, {.ranks = {rank(1, 143, 100)}}, nullptr, 1).nodes, Names{"n2"});
  EXPECT_TRUE(
      decide_restart(ended, {.ranks = {rank(0, 0, 1), rank(1, 0, 1), rank(2, 0, 1)}}, nullptr, 1).reason.empty());
  ended.lost = ended.nodes;
  EXPECT_FALSE(decide_restart(ended, {}, nullptr, 1).is_again);
}

TEST(StepEnd, LeavesOutTheNodesOfLostRanksBeforeSlurmKnows) {
  auto ended = step();
  ended.code = 0;
  auto lost = rank(1, 137, 100);
  lost.is_lost = true;
  const auto verdict = decide_restart(ended, {.ranks = {rank(0, 0, 99), lost, rank(2, 0, 99)}}, nullptr, 1);
  EXPECT_EQ(verdict.nodes, (Names{"n1", "n3"}));
  EXPECT_EQ(verdict.reason,
            "the step is started again without n2 (restart 1 of 1): rank 1 on n2 was lost with its parent process, "
            "mostly with the node");
}

TEST(StepEnd, TakesSpareNodesInPlaceOfLostOnes) {
  auto ended = step();
  ended.lost = {"n2"};
  ended.spares = {"n4", "n5"};
  ended.wanted = 3;
  const auto verdict = decide_restart(ended, {}, nullptr, 2);
  EXPECT_EQ(verdict.nodes, (Names{"n1", "n3", "n4"}));
  EXPECT_EQ(verdict.reason,
            "the step is started again without n2, with the spare n4 (restart 1 of 2): Slurm has lost n2");
}

TEST(StepEnd, ThatNeedsAllItsNodesIsNotStartedOnFewer) {
  auto ended = step();
  ended.lost = {"n2"};
  ended.wanted = 3;
  ended.must_have_all = true;
  const auto verdict = decide_restart(ended, {}, nullptr, 2);
  EXPECT_FALSE(verdict.is_again);
  EXPECT_EQ(verdict.reason,
            "the step is not started again, it needs 3 nodes and 2 are left (data.batch counts per rank): Slurm has "
            "lost n2");
}

TEST(StepEnd, ThatNeedsAllItsNodesKeepsTheOneToBlame) {
  auto ended = step();
  ended.wanted = 3;
  ended.must_have_all = true;
  const auto verdict = decide_restart(ended, {.ranks = {rank(1, 137, 100)}}, nullptr, 2);
  EXPECT_TRUE(verdict.is_again);
  EXPECT_EQ(verdict.nodes, ended.nodes);
}

TEST(StepEnd, BlamesNoNodeOfARankThatOnlyLostAPeer) {
  auto ended = step();
  ended.code = 7;
  const auto verdict = decide_restart(ended, {.ranks = {rank(1, 7, 100)}}, nullptr, 2);
  EXPECT_TRUE(verdict.is_again);
  EXPECT_EQ(verdict.nodes, ended.nodes);
}

TEST(StepEnd, BlamesTheNodeWhoseErrorOthersWereTold) {
  auto full = step();
  full.code = 6;
  auto told = rank(1, 6, 100);
  told.told_by = 0;
  const auto verdict = decide_restart(full, {.ranks = {told, rank(0, 6, 101)}}, nullptr, 2);
  EXPECT_EQ(verdict.nodes, (Names{"n2", "n3"}));
}

TEST(StepEnd, OfAWrongRecipeIsNotTriedAgain) {
  auto ended = step();
  ended.is_recipe = true;
  for (const int code : {2, 3, 5}) {
    ended.code = code;
    EXPECT_FALSE(decide_restart(ended, {}, nullptr, 2).is_again) << code;
  }
  ended.code = 7;
  EXPECT_TRUE(decide_restart(ended, {}, nullptr, 2).is_again);
}

TEST(StepEnd, ThatWasGoodIsNoReason) {
  auto ended = step();
  ended.code = 0;
  const auto verdict = decide_restart(ended, {}, nullptr, 2);
  EXPECT_FALSE(verdict.is_again);
  EXPECT_EQ(verdict.reason, "");
}

TEST(StepEnd, IsNotStartedAgainMoreOftenThanWasAsked) {
  const auto verdict = decide_restart(step(2), {.ranks = {rank(1, 137, 100, 2)}}, nullptr, 2);
  EXPECT_FALSE(verdict.is_again);
  EXPECT_NE(verdict.reason.find("not started again after 2 restarts: rank 1 on n2"), std::string::npos)
      << verdict.reason;
}

TEST(StepEnd, IsNotStartedAgainForAnErrorThatComesAtOnceEachTime) {
  const auto quick = [](int restart, int code) {
    auto ended = step(restart);
    ended.seconds = 3;
    ended.code = code;
    return ended;
  };
  const auto first = quick(0, 1);
  EXPECT_TRUE(decide_restart(first, {}, nullptr, 5).is_again) << "another node may do";
  EXPECT_FALSE(decide_restart(quick(1, 1), {}, &first, 5).is_again);
  EXPECT_TRUE(decide_restart(quick(1, 2), {}, &first, 5).is_again) << "another error";
  EXPECT_TRUE(decide_restart(step(1), {}, &first, 5).is_again) << "it worked for five minutes";
  const auto killed = quick(0, 137);
  EXPECT_TRUE(decide_restart(quick(1, 137), {}, &killed, 5).is_again) << "a kill is no error";
}

TEST(StepEnd, StaysOnTheOnlyNode) {
  auto ended = step();
  ended.nodes = {"n2"};
  const auto verdict = decide_restart(ended, {.ranks = {rank(1, 1, 100)}}, nullptr, 1);
  EXPECT_EQ(verdict.nodes, Names{"n2"});
  EXPECT_NE(verdict.reason.find("the step is started again (restart 1 of 1)"), std::string::npos) << verdict.reason;
}

TEST(StepEnd, IsKeptInTheRunFolderForTheNextTime) {
  const testing::TemporaryFolder folder;
  auto ended = step();
  ended.seconds = 3;
  ended.code = 143;  // srun tells the highest.
  append_exit(folder.path(), rank(1, 5, 100));
  EXPECT_TRUE(decide_and_keep_restart(ended, folder.path(), 3).is_again);
  append_exit(folder.path(), rank(0, 5, 200, 1));
  ended.restart = 1;
  const auto verdict = decide_and_keep_restart(ended, folder.path(), 3);
  EXPECT_FALSE(verdict.is_again) << verdict.reason;
  ended.start = 1;
  ended.restart = 0;
  EXPECT_TRUE(decide_and_keep_restart(ended, folder.path(), 3).is_again) << "a job's next start begins anew";
}

}  // namespace
}  // namespace lockstep
