// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/telemetry_summary.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::TemporaryFolder;

struct Moment {
  double time = 0;
  double cpu_seconds = 0;
  std::uint64_t read_bytes = 0;
  std::optional<double> power{};
  int pid = 10;
  std::optional<double> second_power{};
};

/// Lines of a node with one task and two devices. The second device reports no power, unless the test gives it one.
void write_moment(TelemetryFile& file, const Moment& at) {
  NodeSample sample{.time = at.time, .memory = {.total_bytes = 1000, .available_bytes = 400}};
  sample.tasks.push_back({.task = {.pid = at.pid},
                          .used = {.cpu_seconds = at.cpu_seconds, .memory_bytes = 300, .read_bytes = at.read_bytes}});
  sample.devices.push_back({.pci = "a", .busy_percent = 80, .power_watts = at.power, .memory_used_bytes = 64});
  sample.devices.push_back({.pci = "b", .busy_percent = 40, .power_watts = at.second_power, .memory_total_bytes = 256});
  file.write_sample(sample);
}

TEST(TelemetrySummary, IntegratesPowerOverTimeButNotBetweenTwoAgents) {
  const TemporaryFolder folder;
  {
    TelemetryFile file(folder.path() / "telemetry-n1.jsonl", "n1");
    file.write_start(100, 2, 1);
    for (const auto& at : {Moment{.time = 102, .power = 100.0}, Moment{.time = 104, .power = 300.0},
                           Moment{.time = 108, .power = 500.0}}) {
      write_moment(file, at);
    }
    file.write_end(109);
    file.write_start(1000, 2, 1);
    write_moment(file, {.time = 1002, .power = 400.0, .pid = 20});
    write_moment(file, {.time = 1004, .power = 400.0, .pid = 20});
  }
  const auto all = telemetry_summary(folder.path());
  ASSERT_EQ(all.nodes.size(), 1U);
  const auto& node = all.nodes[0];
  // (100 + 300) / 2 * 2 + (300 + 500) / 2 * 4 before the restart, 400 * 2 after it.
  EXPECT_DOUBLE_EQ(node.energy_joules(), 400 + 1600 + 800);
  EXPECT_EQ(node.devices_with_power(), 1);
  EXPECT_DOUBLE_EQ(*node.power().mean(), (100 + 300 + 500 + 400 + 400) / 5.0);
  EXPECT_DOUBLE_EQ(*node.power().peak(), 500);
  EXPECT_DOUBLE_EQ(*node.busy().mean(), 60);
  EXPECT_DOUBLE_EQ(node.alive_s, 9 + 4);
  EXPECT_EQ(node.agents, 2);
  EXPECT_FALSE(node.has_ended);
  EXPECT_EQ(node.devices[0].memory_peak_bytes, 64U);
  EXPECT_EQ(node.devices[1].memory_total_bytes, 256U);
}

TEST(TelemetrySummary, CountsCoresAndBytesOfEachTaskFromOneSampleToTheNext) {
  const TemporaryFolder folder;
  {
    TelemetryFile file(folder.path() / "telemetry-n1.jsonl", "n1");
    file.write_start(0, 2, 1);
    write_moment(file, {.time = 2, .cpu_seconds = 1, .read_bytes = 500});
    write_moment(file, {.time = 4, .cpu_seconds = 4, .read_bytes = 700});
    // When a process ends, its bytes disappear from the sum. Another process continues to read.
    write_moment(file, {.time = 8, .cpu_seconds = 6, .read_bytes = 100});
    write_moment(file, {.time = 10, .cpu_seconds = 6, .read_bytes = 150});
    write_moment(file, {.time = 12, .cpu_seconds = 2, .read_bytes = 30, .pid = 11});
  }
  const auto node = telemetry_summary(folder.path()).nodes.at(0);
  EXPECT_DOUBLE_EQ(*node.mean_cores(), (3 + 2 + 0) / 8.0);
  EXPECT_DOUBLE_EQ(*node.cores.peak(), 1.5);
  EXPECT_EQ(node.read_bytes, 500U + 200 + 50 + 30);
  EXPECT_EQ(node.task_memory_peak_bytes, 300U);
}

TEST(TelemetrySummary, KeepsEachWarningUntilItIsOver) {
  const TemporaryFolder folder;
  {
    TelemetryFile file(folder.path() / "telemetry-n1.jsonl", "n1");
    file.write_warning(10, "device-idle", "device 0 does nothing");
    file.write_warning_over(25, "device-idle");
    file.write_warning(40, "device-idle", "device 1 does nothing");
    file.write_warning(50, "sockets", "plain sockets");
  }
  const auto findings = telemetry_summary(folder.path()).nodes.at(0).findings;
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].over, 25);
  EXPECT_FALSE(findings[1].over);
  EXPECT_EQ(findings[2].text, "plain sockets");
}

TEST(TelemetrySummary, LeavesOutATornLineAndAnEmptyFile) {
  const TemporaryFolder folder;
  write_whole(folder.path() / "telemetry-n1.jsonl",
              "{\"event\":\"agent_started\",\"node\":\"n1\",\"time\":5}\nno json\n{\"event\":\"sam", false);
  write_whole(folder.path() / "telemetry-n2.jsonl", "", false);
  const auto all = telemetry_summary(folder.path());
  ASSERT_EQ(all.nodes.size(), 1U);
  EXPECT_EQ(all.nodes[0].samples, 0);
  EXPECT_FALSE(all.nodes[0].mean_cores());
  EXPECT_TRUE(all.power.points().empty());
}

NodeSummary node_with(const std::string& name, double watts) {
  NodeSummary node{.node = name};
  node.devices.resize(1);
  node.devices[0].power_watts.add(watts);
  return node;
}

TEST(TelemetrySummary, LeavesDevicesThatWereNeverBusyOutOfTheMean) {
  NodeSummary node;
  node.devices.resize(2);
  node.devices[0].busy_percent.add(0);
  EXPECT_DOUBLE_EQ(*node.busy().mean(), 0) << "where none was busy all count";
  node.devices[1].busy_percent.add(90);
  EXPECT_DOUBLE_EQ(*node.busy().mean(), 90);
  EXPECT_EQ(node.devices_never_busy(), 1);
}

TEST(OddNodes, AreThoseFarthestFromTheMedian) {
  const auto odd = odd_node({node_with("n1", 300), node_with("n2", 310), node_with("n3", 120), node_with("n4", 305)});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->node, "n3");
  EXPECT_EQ(odd->measure, "power");
  EXPECT_DOUBLE_EQ(odd->median, 302.5);
  EXPECT_EQ(odd_node({node_with("n1", 300), node_with("n2", 100)})->node, "n2") << "of two the lower one";
  EXPECT_FALSE(odd_node({node_with("n1", 300)}));
  EXPECT_FALSE(odd_node({node_with("n1", 300), node_with("n2", 300)}));
}

TEST(TimeCurves, HoldNoMorePointsThanAskedAndKeepTheMean) {
  TimeCurve curve(1, 8);
  for (int i = 0; i < 100; ++i) curve.add(1000 + i, i);
  const auto points = curve.points();
  ASSERT_LE(points.size(), 8U);
  ASSERT_GE(points.size(), 4U);
  // Intervals are 16 s long. The time 1000 is in the interval from 992 on, which has the values 0 to 7.
  EXPECT_DOUBLE_EQ(points[0].time, 1000);
  EXPECT_DOUBLE_EQ(points[0].value, 3.5);
  curve.add(990, 1);
  EXPECT_DOUBLE_EQ(curve.points()[0].value, 1) << "another node may have begun before";
}

}  // namespace
}  // namespace lockstep
