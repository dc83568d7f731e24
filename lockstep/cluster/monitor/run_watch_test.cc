// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/run_watch.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

constexpr auto kJob =
    R"({"schema":1,"job":"17","name":"train.sh","cluster":"generic","command":"sh train.sh","nodes":2,"tasks":4,"is_recipe":false,"time_s":3600,"submitted":900,"packed_in":""})";

class RunWatchTest : public ::testing::Test {
 protected:
  fs::path run() const { return root_.path() / "run"; }
  void write(const std::string& name, const std::string& line) const {
    fs::create_directories(run());
    std::ofstream(run() / name, std::ios::app) << line << "\n";
  }
  void start(const std::string& node, double time) const {
    write("telemetry-" + node + ".jsonl", R"({"event":"agent_started","local_world":2,"node":")" + node +
                                              R"(","period_s":2.0,"time":)" + std::to_string(time) + "}");
  }
  void sample(const std::string& node, int rank, double time) const {
    write("telemetry-" + node + ".jsonl",
          R"({"devices":[],"event":"sample","memory_available_bytes":500,"memory_total_bytes":1000,"node":")" + node +
              R"(","tasks":[{"cpu_seconds":)" + std::to_string(time) +
              R"(,"local_rank":0,"memory_bytes":100,"pid":41,)" + R"("processes":1,"rank":)" + std::to_string(rank) +
              R"(,"read_bytes":0,"state":"R","threads":4,"written_bytes":0}],"time":)" + std::to_string(time) + "}");
  }
  void say(const std::string& node, const std::string& event, double time, const std::string& more = "") const {
    write("telemetry-" + node + ".jsonl",
          R"({"event":")" + event + R"(","node":")" + node + R"(","time":)" + std::to_string(time) + more + "}");
  }

  TemporaryFolder root_;
  QueuedJobs running_ = {{"17", {.state = "RUNNING", .reason = "None", .start = "2026-11-22T10:00:00"}}};
};

TEST_F(RunWatchTest, ARunIsItsJobAndItsNodesByTheirRanks) {
  write("job.json", kJob);
  for (const auto& [node, rank] : {std::pair("n1", 2), std::pair("n2", 0)}) {
    start(node, 1000);
    sample(node, rank, 1002);
    sample(node, rank, 1004);
  }
  const auto status = RunWatch(run()).look(running_, 1005);
  EXPECT_EQ(status.name, "run");
  EXPECT_EQ(status.job, "17");
  EXPECT_EQ(status.state, "running");
  EXPECT_EQ(status.tasks, 4);
  EXPECT_FALSE(status.is_over);
  ASSERT_EQ(status.node_list.size(), 2U);
  EXPECT_EQ(status.node_list[0].node, "n2");
  EXPECT_EQ(status.node_list[0].cores(), 1.0);
  EXPECT_FALSE(status.training.has_value());
}

TEST_F(RunWatchTest, ANodeThatSaysNothingWhileTheRunLivesIsSilent) {
  write("job.json", kJob);
  start("n1", 1000);
  sample("n1", 0, 1002);
  start("n2", 1000);
  sample("n2", 2, 1010);
  const auto status = RunWatch(run()).look(running_, 1010);
  EXPECT_TRUE(status.node_list[0].is_silent);
  EXPECT_EQ(status.node_list[0].age_s, 8.0);
  EXPECT_FALSE(status.node_list[1].is_silent);
}

TEST_F(RunWatchTest, ARunIsOverWhenItsJobHasLeftTheQueueAndNothingComes) {
  write("job.json", kJob);
  start("n1", 1000);
  sample("n1", 0, 1002);
  EXPECT_FALSE(RunWatch(run()).look(QueuedJobs{}, 1004).is_over) << "somebody else's job, which lives";
  const auto killed = RunWatch(run()).look(QueuedJobs{}, 1100);
  EXPECT_TRUE(killed.is_over);
  EXPECT_EQ(killed.state, "unknown");
  EXPECT_FALSE(killed.node_list[0].is_silent);
  say("n1", "agent_ended", 1003);
  EXPECT_TRUE(RunWatch(run()).look(QueuedJobs{}, 1004).is_over);
  EXPECT_FALSE(RunWatch(run()).look(running_, 1004).is_over) << "a next job may go on";
  write("result.json", "{}");
  EXPECT_EQ(RunWatch(run()).look(QueuedJobs{}, 1004).state, "finished");
}

TEST_F(RunWatchTest, AJobThatWaitsSaysWhyAndUntilWhen) {
  write("job.json", kJob);
  running_["17"] = {.state = "PENDING", .reason = "Priority", .start = "2026-11-22T10:00:00"};
  const auto status = RunWatch(run()).look(running_, 1000);
  EXPECT_EQ(status.state, "pending (Priority)");
  EXPECT_EQ(status.note, "may start at 2026-11-22T10:00:00");
  EXPECT_FALSE(status.is_over);
  running_["17"].reason = "None";
  EXPECT_EQ(RunWatch(run()).look(running_, 1000).state, "pending") << "Slurm has not looked at it yet";
  start("n1", 1000);
  const auto started = RunWatch(run()).look(running_, 1001);
  EXPECT_EQ(started.state, "running") << "what the queue said is kept for a while";
}

TEST_F(RunWatchTest, ALaterLookTakesWhatHasCome) {
  start("n1", 1000);
  sample("n1", 0, 1002);
  RunWatch watch(run());
  EXPECT_FALSE(watch.look(std::nullopt, 1003).node_list[0].cores().has_value());
  sample("n1", 0, 1004);
  EXPECT_EQ(watch.look(std::nullopt, 1005).node_list[0].cores(), 1.0);
  EXPECT_EQ(watch.look(std::nullopt, 1005).node_list[0].cores(), 1.0) << "nothing new has come";
}

TEST_F(RunWatchTest, FindsAWarningThatManySamplesFollow) {
  start("n1", 1000);
  say("n1", "warning", 1001, R"(,"code":"sockets","text":"NCCL talks over sockets")");
  for (int i = 0; i < 2000; ++i) sample("n1", 0, 1002 + 2 * i);
  const auto status = RunWatch(run()).look(std::nullopt, 5002);
  ASSERT_EQ(status.findings.size(), 1U);
  EXPECT_EQ(status.findings[0].text, "NCCL talks over sockets");
}

TEST_F(RunWatchTest, NamesTheOddRankOnlyWhileTasksAreStuck) {
  for (const int rank : {0, 1, 2}) {
    const auto node = "n" + std::to_string(rank);
    start(node, 1000);
    for (const double time : {1002.0, 1004.0}) {
      const auto used = rank == 1 ? time : 1.0;
      say(node, "sample", time,
          R"(,"tasks":[{"pid":41,"rank":)" + std::to_string(rank) + R"(,"state":"S","cpu_seconds":)" +
              std::to_string(used) + "}]");
    }
  }
  EXPECT_FALSE(RunWatch(run()).look(std::nullopt, 1005).odd_rank.has_value());
  say("n0", "warning", 1005, R"(,"code":"tasks-stuck","text":"no task has worked for 300 s")");
  EXPECT_EQ(RunWatch(run()).look(std::nullopt, 1005).odd_rank.value().rank, 1);
}

TEST_F(RunWatchTest, ARunOfTheTrainingHalfNeedsNoTelemetry) {
  write("metrics.jsonl", R"({"event":"run_started","step":0,"time":1000.0,"epochs":10,"steps_total":290})");
  write("metrics.jsonl", R"({"event":"run_ended","step":290,"time":1300.0,"stopped_by":"max_epochs"})");
  const auto status = RunWatch(run()).look(std::nullopt, 1400);
  EXPECT_EQ(status.training.value().step, 290);
  EXPECT_TRUE(status.is_over);
  EXPECT_EQ(status.state, "ended");
}

TEST_F(RunWatchTest, IsFoundByFolderAndByName) {
  write("metrics.jsonl", "{}");
  EXPECT_EQ(watched_run("run", {root_.path()}), run());
  EXPECT_EQ(watched_run(run().string(), {"elsewhere"}), run());
}

TEST_F(RunWatchTest, SaysWhereThereIsNoRun) {
  write("job.json", kJob);
  const auto misspelt = message_of(ErrorKind::kUsage, [&] { watched_run("rum", {root_.path()}); });
  EXPECT_HAS(misspelt, "there is no run 'rum'");
  EXPECT_HAS(misspelt, "did you mean 'run'?");
  const auto empty = message_of(ErrorKind::kUsage, [&] { watched_run(root_.path().string(), {"elsewhere"}); });
  EXPECT_HAS(empty, "holds no run: no job.json, no metrics.jsonl, no telemetry-NODE.jsonl");
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { latest_run({root_.path() / "none"}); }), "there is no run in ");
}

TEST_F(RunWatchTest, TheLatestRunIsTheOneSubmittedOrWrittenLast) {
  write("job.json", kJob);
  EXPECT_EQ(latest_run({root_.path()}), run());
  const auto other = root_.path() / "other";
  fs::create_directories(other);
  std::ofstream(other / "metrics.jsonl") << "{}\n";
  EXPECT_EQ(latest_run({root_.path()}), other) << "it wrote just now";
}

}  // namespace
}  // namespace lockstep
