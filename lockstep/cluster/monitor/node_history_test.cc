// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/node_history.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

// Lines of telemetry that an agent wrote on a node with two tasks and one device.
constexpr auto kStart = R"({"event":"agent_started","local_world":2,"node":"n1","period_s":2.0,"time":1000.0})";
constexpr auto kFirst =
    R"({"devices":[{"busy_percent":null,"memory_total_bytes":68702699520,"memory_used_bytes":1073741824,"pci":"0000:c1:00.0","power_watts":90.0,"temperature_celsius":41.0}],"event":"sample","memory_available_bytes":600,"memory_total_bytes":1000,"node":"n1","tasks":[{"cpu_seconds":1.0,"local_rank":0,"memory_bytes":100,"pid":41,"processes":1,"rank":0,"read_bytes":0,"state":"R","threads":4,"written_bytes":1000},{"cpu_seconds":1.0,"local_rank":1,"memory_bytes":50,"pid":42,"processes":2,"rank":1,"read_bytes":4096,"state":"S","threads":4,"written_bytes":0}],"time":1002.0})";
constexpr auto kSecond =
    R"({"devices":[{"busy_percent":97.0,"memory_total_bytes":68702699520,"memory_used_bytes":1073741824,"pci":"0000:c1:00.0","power_watts":412.0,"temperature_celsius":61.0}],"event":"sample","memory_available_bytes":500,"memory_total_bytes":1000,"node":"n1","tasks":[{"cpu_seconds":3.0,"local_rank":0,"memory_bytes":120,"pid":41,"processes":1,"rank":0,"read_bytes":8192,"state":"R","threads":4,"written_bytes":3000},{"cpu_seconds":2.0,"local_rank":1,"memory_bytes":60,"pid":42,"processes":1,"rank":1,"read_bytes":1024,"state":"S","threads":4,"written_bytes":0}],"time":1004.0})";

NodeHistory history_of(const std::vector<std::string>& lines) {
  NodeHistory history;
  for (const auto& line : lines) history.take(parsed_telemetry(line).value());
  return history;
}

std::string warning(double time, const std::string& code, const std::string& text) {
  return R"({"code":")" + code + R"(","event":"warning","node":"n1","text":")" + text + R"(","time":)" +
         std::to_string(time) + "}";
}

NodeStatus node_with(const std::string& name, std::vector<TaskStatus> tasks) {
  return {.node = name, .tasks = std::move(tasks)};
}

TEST(NodeHistory, RatesAreWhatCameBetweenTheLastTwoSamples) {
  const auto status = history_of({kStart, kFirst, kSecond}).status(1005);
  EXPECT_EQ(status.node, "n1");
  EXPECT_EQ(status.local_world, 2);
  EXPECT_EQ(status.age_s, 1.0);
  ASSERT_EQ(status.tasks.size(), 2U);
  EXPECT_EQ(status.tasks[0].cores, 1.0);
  EXPECT_EQ(status.tasks[1].cores, 0.5);
  EXPECT_EQ(status.cores(), 1.5);
  EXPECT_EQ(status.tasks_memory_bytes(), 180U);
  EXPECT_EQ(status.written_bytes_per_s, 1000.0);
  EXPECT_EQ(status.devices.at(0).busy_percent, 97.0);
}

TEST(NodeHistory, WhatAnEndedProcessHadReadIsNoNegativeRate) {
  EXPECT_EQ(history_of({kStart, kFirst, kSecond}).status(1005).read_bytes_per_s, 4096.0);
}

TEST(NodeHistory, OneSampleGivesNoRates) {
  const auto status = history_of({kStart, kFirst}).status(1005);
  EXPECT_EQ(status.tasks.size(), 2U);
  EXPECT_FALSE(status.cores().has_value());
  EXPECT_FALSE(status.read_bytes_per_s.has_value());
}

TEST(NodeHistory, IsFreshForThreePeriodsAfterItsLastSample) {
  const auto history = history_of({kStart, kFirst});
  EXPECT_TRUE(history.is_fresh(1008));
  EXPECT_FALSE(history.is_fresh(1008.1));
  EXPECT_TRUE(history_of({kStart}).is_fresh(1006)) << "it has not come to a sample yet";
}

TEST(NodeHistory, HasEndedWhereItsAgentSaidSo) {
  const auto history = history_of({kStart, kFirst, R"({"event":"agent_ended","node":"n1","time":1003.0})"});
  EXPECT_TRUE(history.status(1003).has_ended);
  EXPECT_FALSE(history.is_fresh(1003));
}

TEST(NodeHistory, AWarningHoldsUntilItIsOver) {
  auto history = history_of({kStart, warning(1001, "sockets", "slow"), warning(1002, "tasks-stuck", "stuck")});
  ASSERT_EQ(history.findings().size(), 2U);
  EXPECT_EQ(history.findings()[1].text, "stuck");
  history.take(*parsed_telemetry(R"({"code":"tasks-stuck","event":"warning_over","node":"n1","time":1003.0})"));
  ASSERT_EQ(history.findings().size(), 1U);
  EXPECT_EQ(history.findings()[0].code, "sockets");
}

TEST(NodeHistory, ARestartBeginsAnew) {
  const auto history = history_of({kStart, kFirst, kSecond, warning(1004, "tasks-stuck", "stuck"),
                                   R"({"event":"agent_ended","node":"n1","time":1005.0})", kStart});
  EXPECT_TRUE(history.findings().empty());
  EXPECT_FALSE(history.has_ended());
  EXPECT_TRUE(history.status(1006).tasks.empty());
}

TEST(OddRank, IsTheOnlyOneThatWaitsForADevice) {
  const std::vector<NodeStatus> nodes = {node_with("n1", {{.rank = 0, .state = 'S'}, {.rank = 1, .state = 'R'}}),
                                         node_with("n2", {{.rank = 2, .state = 'D'}, {.rank = 3, .state = 'S'}})};
  const auto odd = odd_rank(nodes).value();
  EXPECT_EQ(odd.rank, 2);
  EXPECT_EQ(odd.node, "n2");
  EXPECT_EQ(odd.how, "alone waits for a disk or a device (state D)");
}

TEST(OddRank, IsTheOnlyOneThatUsesACoreOrNone) {
  const std::vector<NodeStatus> computes = {
      node_with("n1", {{.rank = 0, .cores = 0.0}, {.rank = 1, .cores = 0.98}, {.rank = 2, .cores = 0.01}})};
  EXPECT_EQ(odd_rank(computes).value().how, "alone uses a core");
  const std::vector<NodeStatus> sleeps = {
      node_with("n1", {{.rank = 0, .cores = 1.0}, {.rank = 1, .cores = 0.0}, {.rank = 2, .cores = 1.01}})};
  EXPECT_EQ(odd_rank(sleeps).value().rank, 1);
}

TEST(OddRank, IsNobodyWhereSeveralDifferOrOneIsAlone) {
  const std::vector<NodeStatus> two = {
      node_with("n1", {{.rank = 0, .state = 'D'}, {.rank = 1, .state = 'D'}, {.rank = 2, .state = 'S'}})};
  EXPECT_FALSE(odd_rank(two).has_value());
  const std::vector<NodeStatus> between = {
      node_with("n1", {{.rank = 0, .cores = 0.0}, {.rank = 1, .cores = 0.98}, {.rank = 2, .cores = 0.2}})};
  EXPECT_FALSE(odd_rank(between).has_value());
  const std::vector<NodeStatus> alone = {node_with("n1", {{.rank = 0, .state = 'D'}})};
  EXPECT_FALSE(odd_rank(alone).has_value());
}

}  // namespace
}  // namespace lockstep
