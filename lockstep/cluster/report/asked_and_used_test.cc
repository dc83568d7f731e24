// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/asked_and_used.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr std::uint64_t kGib = 1 << 30;

/// A report on a program on two nodes. It used 12 minutes of an hour, 3 of 16 cores, 8 of 96 GiB and 2 of 4 devices.
RunReport some_run() {
  RunReport report{.state = RunState::kEnded, .alive_s = 720, .starts = 1};
  report.job = JobRecord{.command = "python train.py",
                         .nodes = 2,
                         .tasks = 2,
                         .time_s = 3600,
                         .asked = {.is_known = true, .devices = 4, .cores_per_task = 16, .memory = "96G"}};
  for (const auto* name : {"n1", "n2"}) {
    NodeSummary node{.node = name, .alive_s = 720, .core_seconds = 1440, .task_seconds = 720};
    node.cores.add(2);
    node.cores.add(3);
    node.memory_peak_bytes = 8 * kGib;
    node.devices.resize(4);
    for (int i = 0; i < 4; ++i) node.devices[static_cast<std::size_t>(i)].busy_percent.add(i < 2 ? 80 : 0);
    report.telemetry.nodes.push_back(node);
  }
  return report;
}

std::string next(const RunReport& report) { return next_command(report, asked_and_used(report)); }

TEST(AskedAndUsed, TellsWhatAProgramUsedAndHowToAskNextTime) {
  const auto lines = asked_and_used(some_run());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].asked, "01:00:00");
  EXPECT_EQ(lines[0].used, "00:12:00 (20 %)");
  EXPECT_EQ(lines[1].asked, "16 a task");
  EXPECT_EQ(lines[1].used, "2.0 a task on average, 3.0 at most");
  EXPECT_EQ(lines[2].asked, "96.0 GiB a node");
  EXPECT_EQ(lines[2].used, "8.0 GiB on the node with most");
  EXPECT_EQ(lines[3].used, "2 a node");
  EXPECT_EQ(next(some_run()),
            "lockstep submit … --time 00:15:00 --cores-per-task 4 --sbatch=--mem=11G --devices 2 -- python train.py");
}

TEST(AskedAndUsed, AsksForNoLessOfNodesThatTheJobHasWhole) {
  auto report = some_run();
  report.job->asked.has_whole_nodes = true;
  report.job->is_recipe = true;
  report.job->name = "mnist";
  EXPECT_EQ(next(report), "lockstep submit mnist … --time 00:15:00 --devices 2");
}

TEST(AskedAndUsed, AsksForMoreOfWhatARunLacked) {
  auto late = some_run();
  late.state = RunState::kFailed;
  late.end = RunEnd{.state = "timeout", .code = 143};
  late.alive_s = 3600;
  EXPECT_EQ(next(late), "lockstep submit … --time 02:30:00 -- python train.py");
  late.training = TrainingReport{};
  late.training->steps_done = 100;
  late.training->steps_planned = 150;
  EXPECT_EQ(next(late), "lockstep submit … --time 01:55:00 -- python train.py");
  auto full = some_run();
  full.state = RunState::kFailed;
  full.end = RunEnd{.state = "out of memory", .code = 137};
  EXPECT_EQ(next(full), "lockstep submit … --sbatch=--mem=192G -- python train.py");
}

TEST(AskedAndUsed, JudgesNothingByAFewSecondsNorOfAnEarlierVersionsJob) {
  auto report = some_run();
  for (auto& node : report.telemetry.nodes) node.alive_s = 5;
  EXPECT_EQ(asked_and_used(report).size(), 1U);
  report = some_run();
  report.job->asked.is_known = false;
  EXPECT_EQ(asked_and_used(report).size(), 1U);
  report.job.reset();
  EXPECT_TRUE(asked_and_used(report).empty());
}

TEST(MemoryFlag, IsReadAsSlurmReadsIt) {
  EXPECT_EQ(slurm_memory_bytes("96g"), 96.0 * kGib);
  EXPECT_EQ(slurm_memory_bytes("16000"), 16000.0 * (1 << 20));
  EXPECT_EQ(slurm_memory_bytes("512K"), 512.0 * 1024);
  EXPECT_EQ(slurm_memory_bytes("0"), 0);
  EXPECT_EQ(slurm_memory_bytes(""), 0);
  EXPECT_EQ(slurm_memory_bytes("all"), 0);
}

}  // namespace
}  // namespace lockstep
