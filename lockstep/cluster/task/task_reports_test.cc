// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/task_reports.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::seconds;
using testing::TemporaryFolder;

RankSight some_rank(int rank) {
  RankSight sight{.rank = rank, .host = "n" + std::to_string(rank / 8), .pid = 100 + rank, .state = 'S', .age_s = 6};
  sight.page = PageSight{.pid = 100 + rank, .phase = Phase::kBackward, .step = 12};
  sight.page->collective = {.number = 57, .what = "all_reduce Float", .elements = 1024, .detail = "bucket 2"};
  return sight;
}

const TaskReports::Time kNow = TaskReports::Time(seconds(1'800'000'000));

TEST(TaskReportsTest, ComeBackByRankWithTheirViews) {
  const TemporaryFolder folder;
  TaskReports reports(folder.path());
  EXPECT_TRUE(reports.since(kNow, kNow).empty());
  reports.tell(some_rank(3), {{"stack", {"main"}}}, kNow);
  reports.tell(some_rank(1), nullptr, kNow);
  const auto found = reports.since(kNow, kNow);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].sight.rank, 1);
  EXPECT_TRUE(found[0].view.is_null());
  EXPECT_EQ(found[1].sight.page->collective.detail, "bucket 2");
  EXPECT_EQ(found[1].view["stack"][0], "main");
  reports.take_back(3);
  EXPECT_EQ(reports.since(kNow, kNow).size(), 1U);
}

TEST(TaskReportsTest, GrowOldUntilTheyAreTakenBack) {
  const TemporaryFolder folder;
  TaskReports reports(folder.path());
  reports.tell(some_rank(0), nullptr, kNow);
  for (const int later : {0, 7}) {
    EXPECT_EQ(reports.since(kNow, kNow + seconds(later)).at(0).sight.age_s, 6 + later);
  }
  EXPECT_TRUE(reports.since(kNow + seconds(1), kNow + seconds(8)).empty()) << "it is from before";
}

TEST(TaskReportsTest, AreReadAgainWhenTheyHaveChanged) {
  const TemporaryFolder folder;
  TaskReports reports(folder.path());
  reports.tell(some_rank(0), nullptr, kNow);
  reports.since(kNow, kNow);
  reports.tell(some_rank(0), {{"stack", {"main"}}}, kNow);
  EXPECT_FALSE(reports.since(kNow, kNow).at(0).view.is_null());
}

TEST(TaskReportsTest, LeaveOutWhatIsNone) {
  const TemporaryFolder folder;
  TaskReports reports(folder.path());
  make_folder(reports.folder());
  write_whole(reports.folder() / "rank-0001.json", "[1, 2", false);
  write_whole(reports.folder() / "rank-0002.json", R"({"time": "x", "rank": 2})", false);
  write_whole(reports.folder() / "asked", "", false);
  EXPECT_TRUE(reports.since(kNow, kNow).empty());
}

/// One of many ranks is stopped, and all others wait for it. Prints what a verdict costs.
void measure_verdict(int world) {
  const TemporaryFolder folder;
  std::vector<TaskReports> parents(static_cast<std::size_t>(world), TaskReports(folder.path()));
  const auto tell = [&](int rank) {
    auto own = some_rank(rank);
    if (rank == world / 2) own.state = 'T';
    own.age_s = 12;
    parents[static_cast<std::size_t>(rank)].tell(own, {{"stack", {"a", "b", "c"}}}, kNow);
  };
  const auto start = Clock::now();
  for (int rank = 0; rank < world; ++rank) tell(rank);
  const auto told = Clock::now();
  auto& judge = parents.front();
  const auto look = [&] {
    std::vector<RankSight> ranks;
    for (auto& each : judge.since(kNow, kNow)) ranks.push_back(std::move(each.sight));
    return verdict_on(ranks);
  };
  const auto verdict = look();
  const auto first = Clock::now();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->ranks, std::vector<int>{world / 2});
  ASSERT_TRUE(look());
  std::cout << "ranks " << world << ": files written " << world << ", " << seconds_between(start, told) / world * 1e3
            << " ms each; read by rank 0 and judged in " << seconds_between(told, first) << " s, again in "
            << seconds_between(first, Clock::now()) << " s\n";
}

TEST(TaskReportsTest, OfAThousandRanksAreJudgedInSeconds) { measure_verdict(1000); }

TEST(TaskReportsTest, OfTenThousandRanksAreJudgedInSeconds) {
  if (std::getenv("LOCKSTEP_SOAK") == nullptr) GTEST_SKIP() << "a thousand are the sample; LOCKSTEP_SOAK=1 takes ten";
  measure_verdict(10'000);
}

}  // namespace
}  // namespace lockstep
