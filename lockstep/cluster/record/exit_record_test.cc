// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/exit_record.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

RankExit exit_of(int rank, int code, double time, int start = 0) {
  return {.job = "45",
          .start = start,
          .rank = rank,
          .node = "n" + std::to_string(rank / 2 + 1),
          .code = code,
          .time = time};
}

TEST(ExitRecords, AreReadAsTheyWereAppended) {
  const testing::TemporaryFolder folder;
  auto killed = exit_of(3, 137, 12.5);
  killed.signal = 9;
  killed.last = {"one", "two"};
  killed.doing = "forward of step 12";
  append_exit(folder.path(), killed);
  append_exit(folder.path(), JobExit{.job = "45", .code = 137, .state = "OUT_OF_MEMORY"});
  std::ofstream(folder.path() / "exits-n3.jsonl") << "{\"job\":\"45\",\"rank\":";
  const auto records = read_exits(folder.path());
  ASSERT_EQ(records.ranks.size(), 1U) << "half a line is left out";
  EXPECT_EQ(records.ranks[0].signal, 9);
  EXPECT_EQ(records.ranks[0].last, killed.last);
  EXPECT_EQ(records.ranks[0].doing, killed.doing);
  ASSERT_NE(records.end_of_job("45"), nullptr);
  EXPECT_EQ(records.end_of_job("45")->state, "OUT_OF_MEMORY");
  EXPECT_EQ(records.end_of_job("46"), nullptr);
}

TEST(FirstExit, IsTheEarliestRankThatFailedByItself) {
  const ExitRecords records{
      .ranks = {exit_of(0, 7, 9.0), exit_of(1, 143, 10.4), exit_of(3, 137, 10.0), exit_of(2, 0, 3.0)}};
  const auto first = first_exit(records, "45");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->rank.rank, 3) << "code 7 only says that a peer is dead";
  EXPECT_EQ(to_text(*first), "rank 3 on n2 ended first, by SIGKILL (137; often memory), 0 µs before the others");
  EXPECT_EQ(to_text(*first_exit({.ranks = {exit_of(3, 137, 10.0), exit_of(1, 143, 10.4)}}, "45")),
            "rank 3 on n2 ended first, by SIGKILL (137; often memory), 400 ms before the others");
}

TEST(FirstExit, SaysWhatTheRankWasDoing) {
  auto killed = exit_of(3, 137, 10.0);
  killed.doing = "forward of step 12";
  EXPECT_EQ(
      to_text(*first_exit({.ranks = {killed, exit_of(1, 143, 10.4)}}, "45")),
      "rank 3 on n2 ended first, by SIGKILL (137; often memory), in forward of step 12, 400 ms before the others");
}

TEST(FirstExit, IsARankThatWasLostAlthoughItsRecordComesLast) {
  const testing::TemporaryFolder folder;
  auto lost = exit_of(2, 137, 12.0);
  lost.is_lost = true;
  append_exit(folder.path(), exit_of(0, 7, 11.0));
  append_exit(folder.path(), lost);
  const auto first = first_exit(read_exits(folder.path()), "45");
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->rank.is_lost);
  EXPECT_EQ(to_text(*first), "rank 2 on n2 was lost with its parent process, mostly with the node");
}

TEST(FirstExit, IsTheRankWhoseErrorOthersWereTold) {
  const testing::TemporaryFolder folder;
  auto told = exit_of(1, 6, 10.0);
  told.told_by = 0;
  append_exit(folder.path(), told);
  append_exit(folder.path(), exit_of(2, 143, 10.2));
  append_exit(folder.path(), exit_of(0, 6, 10.4));
  const auto first = first_exit(read_exits(folder.path()), "45");
  ASSERT_TRUE(first);
  EXPECT_EQ(to_text(*first), "rank 0 on n1 ended first, with code 6, 0 µs before the others");
}

TEST(FirstExit, IsOfTheLastStartAlone) {
  const ExitRecords records{.ranks = {exit_of(1, 5, 1.0), exit_of(0, 0, 2.0, 1), exit_of(1, 0, 2.0, 1)}};
  EXPECT_FALSE(first_exit(records, "45"));
  EXPECT_FALSE(first_exit(records, "46"));
}

TEST(FirstExit, NamesACodeThatIsNoSignal) {
  EXPECT_EQ(exit_code_text(255), "code 255");
  EXPECT_EQ(exit_code_text(139), "SIGSEGV (139)");
  EXPECT_EQ(exit_code_text(135), "SIGBUS (135; often a full /dev/shm or disk)");
  EXPECT_EQ(to_text(*first_exit({.ranks = {exit_of(0, 5, 1.0)}}, "45")), "rank 0 on n1 ended, with code 5");
}

}  // namespace
}  // namespace lockstep
