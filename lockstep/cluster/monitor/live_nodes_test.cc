// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/live_nodes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "tests/support/fake_machine.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

class LiveNodesTest : public ::testing::Test {
 protected:
  void process(int pid, int started, const std::map<std::string, std::string>& variables) const {
    const auto folder = root_.path() / "proc" / std::to_string(pid);
    fs::create_directories(folder);
    std::ofstream stat(folder / "stat");
    stat << pid << " (python) S 1";
    for (int field = 5; field < 22; ++field) stat << " 0";
    stat << " " << started << "\n";
    std::ofstream environ(folder / "environ");
    for (const auto& [name, value] : variables) environ << name << "=" << value << '\0';
  }
  static std::map<std::string, std::string> task(int rank, const std::string& step = "0") {
    return {{"SLURM_JOB_ID", "17"},
            {"SLURM_STEP_ID", step},
            {"SLURM_PROCID", std::to_string(rank)},
            {"SLURM_LOCALID", std::to_string(rank)}};
  }
  std::vector<int> pids(const Environment& env = {}) const {
    return map_each(tasks_of_job("17", env, root_.path()), [](const auto& each) { return static_cast<int>(each.pid); });
  }
  /// Returns an environment in whose PATH there are only this squeue and srun.
  Environment with_tools(const std::string& squeue, const std::string& srun = "exit 1") const {
    for (const auto& [name, text] : {std::pair("squeue", squeue), std::pair("srun", srun)}) {
      std::ofstream(root_.path() / name) << "#!/bin/sh\n" << text << "\n";
      fs::permissions(root_.path() / name, fs::perms::owner_all);
    }
    return {{"PATH", root_.path().string() + ":/usr/bin:/bin"}};
  }

  TemporaryFolder root_;
};

TEST_F(LiveNodesTest, OfEachRankTheProcessThatCameFirstIsTheTask) {
  process(101, 500, task(0));
  process(50, 900, task(0));  // Process numbers may begin anew.
  process(102, 500, task(1));
  process(103, 500, {{"SLURM_JOB_ID", "18"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}});
  process(104, 500, {{"HOME", "/"}});
  EXPECT_EQ(pids(), (std::vector{101, 102}));
}

TEST_F(LiveNodesTest, TheBatchScriptCountsOnlyWhereNoStepRuns) {
  auto batch = task(0);
  batch.erase("SLURM_STEP_ID");
  process(90, 100, batch);
  EXPECT_EQ(pids(), std::vector{90});
  process(91, 100, task(0, "4294967290"));
  process(101, 500, task(0));
  EXPECT_EQ(pids(), std::vector{101});
}

TEST_F(LiveNodesTest, TheStepThatAsksIsNoTaskNorIsAnotherNodes) {
  process(101, 500, task(0));
  process(200, 900, task(0, "1"));
  auto elsewhere = task(1);
  elsewhere["SLURMD_NODENAME"] = "n2";
  process(102, 500, elsewhere);
  EXPECT_EQ(pids({{"SLURM_STEP_ID", "1"}, {"SLURMD_NODENAME", "n1"}}), std::vector{101});
}

TEST_F(LiveNodesTest, ANodesDevicesAreThoseOfTheJobsTasks) {
  testing::FakeMachine machine(4, 1);
  machine.write("sys/class/kfd/kfd/topology/nodes/0/properties", "simd_count 0\n");
  for (unsigned gpu = 0; gpu < 4; ++gpu) {
    machine.add_amd(0x10 + gpu, 0);
    machine.write("sys/bus/pci/devices/0000:1" + std::to_string(gpu) + ":00.0/gpu_busy_percent", "90");
  }
  const auto devices = [&] {
    const auto lines = unframed(answer_of_this_node("17", {}, std::chrono::milliseconds(0), machine.root()));
    return map_each(lines.back().sample.devices, [](const auto& each) { return each.pci; });
  };
  for (const int rank : {0, 1}) {
    auto variables = task(rank);
    variables["ROCR_VISIBLE_DEVICES"] = std::to_string(1 + 2 * rank);
    process(101 + rank, 500, variables);
  }
  fs::create_directory_symlink(root_.path() / "proc", machine.root() / "proc");
  EXPECT_EQ(devices(), (std::vector<std::string>{"0000:11:00.0", "0000:13:00.0"}));
}

TEST(LiveFrames, ComeThroughWhateverTheirLengthAndOrder) {
  NodeSample long_one{.time = 5};
  for (int rank = 0; rank < 40; ++rank) long_one.tasks.push_back({.task = {.rank = rank}, .used = {.cpu_seconds = 1}});
  auto first = split(framed({long_one, {.time = 6}}, "n1"), '\n');
  const auto second = split(framed({{.time = 7}}, "n2"), '\n');
  EXPECT_GT(first.size(), 4U);
  for (const auto& line : first) EXPECT_LE(line.size(), kMostFramed);
  first.insert(first.begin() + 1, second.front());
  first.insert(first.begin(), "something else");
  const auto lines = unframed(joined(first, "\n"));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].node, "n2");
  EXPECT_EQ(lines[1].sample.tasks.size(), 40U);
  EXPECT_EQ(lines[2].time, 6);
}

TEST_F(LiveNodesTest, AJobIsItsNodes) {
  const auto job = live_job("17_3", with_tools("echo '20|SIGNALING|train.sh|n[1-3]'"));
  EXPECT_EQ(job.id, "20");
  EXPECT_EQ(job.nodes, (std::vector<std::string>{"n1", "n2", "n3"}));
}

TEST_F(LiveNodesTest, AJobThatDoesNotRunHasNoNodesToAsk) {
  const auto pending = with_tools("echo '17|PENDING|train.sh|'");
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { live_job("17", pending); }), "job 17 is PENDING, want RUNNING");
  const auto unknown = with_tools("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { live_job("17", unknown); }),
             "squeue does not know job 17: slurm_load_jobs error: Invalid job id specified");
}

TEST_F(LiveNodesTest, ABusySlurmDoesNotSayThatAJobHasEnded) {
  const auto failure = [&](const std::string& reason) {
    const auto env = with_tools("echo 'slurm_load_jobs error: " + reason + "' >&2; exit 1");
    try {
      live_job("17", env);
    } catch (const JobNotRunning&) {
      return std::string("not running");
    } catch (const Error& error) {
      return std::string(error.fact());
    }
    return std::string();
  };
  EXPECT_EQ(failure("Invalid job id specified"), "not running");
  EXPECT_EQ(failure("Socket timed out"), "squeue does not answer: slurm_load_jobs error: Socket timed out");
}

TEST_F(LiveNodesTest, SrunsReasonIsKept) {
  const auto env = with_tools("true", "echo 'srun: error: Unable to create step' >&2; exit 1");
  const auto message = message_of(ErrorKind::kEnvironment, [&] {
    asked_nodes({"17", "train.sh", {"n1"}}, "lockstep", env);
  });
  EXPECT_HAS(message, "no node of job 17 answers: srun: error: Unable to create step");
  EXPECT_HAS(message, "hint: ");
}

TEST_F(LiveNodesTest, WhatSomeNodesAnswerIsShownBesideTheRefusal) {
  const auto answer = root_.path() / "answer";
  std::ofstream(answer) << framed({{.time = 5}, {.time = 6}}, "n1");
  const auto env = with_tools("true", "cat '" + answer.string() + "'; echo 'srun: error: n2 is down' >&2; exit 1");
  const auto answered = asked_nodes({"17", "train.sh", {"n1", "n2"}}, "lockstep", env);
  ASSERT_EQ(answered.nodes.size(), 1U);
  EXPECT_EQ(answered.nodes[0].node, "n1");
  EXPECT_EQ(answered.refusal, "srun: error: n2 is down");
}

}  // namespace
}  // namespace lockstep
