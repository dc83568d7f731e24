// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/status_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/text_format.h"
#include "lockstep/cluster/monitor/status_json.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

NodeStatus node(const std::string& name, int first_rank) {
  NodeStatus node{.node = name,
                  .local_world = 2,
                  .age_s = 1.2,
                  .memory = {.total_bytes = 16 * kGiB, .available_bytes = 12 * kGiB},
                  .read_bytes_per_s = 0,
                  .written_bytes_per_s = 1.5 * 1024};
  for (const int rank : {first_rank, first_rank + 1}) {
    node.tasks.push_back({.rank = rank, .state = 'R', .cores = 0.99, .memory_bytes = kGiB / 2});
    node.devices.push_back({.pci = "0000:c1:00.0",
                            .busy_percent = 97,
                            .power_watts = 412,
                            .temperature_celsius = 61,
                            .memory_used_bytes = 58 * kGiB,
                            .memory_total_bytes = 64 * kGiB});
  }
  return node;
}

RunStatus run_of(int nodes) {
  RunStatus status{.name = "cifar-17",
                   .run_dir = "runs/cifar-17",
                   .job = "17",
                   .state = "running",
                   .nodes = nodes,
                   .tasks = 2 * nodes};
  for (int i = 0; i < nodes; ++i) status.node_list.push_back(node("n" + zero_padded(i + 1, 2), 2 * i));
  return status;
}

std::string plain(const RunStatus& status) { return text_of(view_of(status), {}); }

TEST(RunView, ShowsTheRunItsTrainingAndEachNode) {
  auto status = run_of(2);
  status.training = {.step = 1200,
                     .steps_total = 5000,
                     .epochs = 10,
                     .epoch = 2,
                     .loss = 0.12345,
                     .samples_per_second = 10432.4,
                     .seconds_left = 751,
                     .validation = {{"val_accuracy", 0.9778}}};
  status.node_list[0].devices[0].power_watts.reset();
  EXPECT_EQ(plain(status),
            "cifar-17 · job 17 · running · 2 nodes · 4 tasks\n"
            "epoch 3/10 · step 1200/5000 · loss 0.1235 · 10432 samples/s · val_accuracy 0.9778 · 00:12:31 left\n"
            "\n"
            "node  tasks  cores  of tasks      node memory   read    written   sample\n"
            "n01     2/2    2.0   1.0 GiB  4.0 of 16.0 GiB  0 B/s  1.5 KiB/s  1 s ago\n"
            "  2 devices: 97 97 % busy · – 412 W · 61 61 °C · 58.0 58.0 of 64.0 GiB\n"
            "n02     2/2    2.0   1.0 GiB  4.0 of 16.0 GiB  0 B/s  1.5 KiB/s  1 s ago\n"
            "  2 devices: 97 97 % busy · 412 412 W · 61 61 °C · 58.0 58.0 of 64.0 GiB\n");
}

TEST(RunView, SaysWhichNodeIsSilentAndWhatIsWrong) {
  auto status = run_of(2);
  status.node_list[1].is_silent = true;
  status.node_list[1].age_s = 192;
  status.findings = {
      {.node = "n01", .code = "tasks-stuck", .text = "no task has worked for 300 s\n  look at it", .since = 1}};
  status.odd_rank = {.rank = 3, .node = "n02", .how = "alone uses a core"};
  const auto text = plain(status);
  EXPECT_HAS(text, "silent for 00:03:12\n");
  EXPECT_HAS(text, "n01: tasks-stuck: no task has worked for 300 s\n  look at it\n");
  EXPECT_HAS(text, "rank 3 on n02 alone uses a core: most likely the others wait for it\n");
}

TEST(RunView, WhatNobodyToldIsADash) {
  RunStatus status{.name = "run", .state = "running", .node_list = {{.node = "n1"}}};
  EXPECT_HAS(plain(status), "n1    –      –      –         –            –     –        –\n");
}

TEST(RunView, OfManyNodesShowsTheSpreadAndThoseThatDifferMost) {
  auto status = run_of(40);
  status.node_list[20].tasks[0].cores = 0.0;
  status.node_list[30].is_silent = true;
  const auto text = plain(status);
  EXPECT_HAS(text, "of 40 nodes   least  mean  most\n");
  EXPECT_HAS(text, "cores           1.0   2.0   2.0\n");
  EXPECT_HAS(text, "and 24 nodes that differ less\n");
  EXPECT_HAS(text, "\nn21 ");
  EXPECT_HAS(text, "\nn31 ");
  EXPECT_EQ(most_different(status.node_list, 2), (std::vector<std::size_t>{20, 30}));
}

TEST(RunView, FitsTheTerminal) {
  const std::vector<StatusLine> lines = {{"°°°°°°"}, {"two"}, {"three"}, {"four"}};
  EXPECT_EQ(text_of(lines, {.columns = 4, .rows = 4}), "°°°…\ntwo\nthr…\nfour\n");
  EXPECT_EQ(text_of(lines, {.columns = 40, .rows = 3}), "°°°°°°\ntwo\n… and 2 more lines\n");
}

TEST(RunView, IsColouredOnlyWhereThatIsShown) {
  const std::vector<StatusLine> lines = {{"run", Tone::kHead}, {}, {"odd", Tone::kAlarm}};
  EXPECT_EQ(text_of(lines, {}), "run\n\nodd\n");
  EXPECT_EQ(text_of(lines, {.colour = true}), "\x1b[1mrun\x1b[0m\n\n\x1b[33modd\x1b[0m\n");
}

TEST(RunView, JsonHasNullForWhatNobodyTold) {
  const auto object = json_of(RunStatus{.state = "running", .node_list = {{.node = "n1"}}});
  EXPECT_EQ(object.at("schema"), 1);
  for (const auto* key : {"run_dir", "job", "training", "odd_rank"}) EXPECT_TRUE(object.at(key).is_null()) << key;
  for (const auto* key : {"age_s", "cores", "local_world", "memory_total_bytes"}) {
    EXPECT_TRUE(object.at("nodes").at(0).at(key).is_null()) << key;
  }
}

TEST(RunView, JsonHasEachTaskAndDevice) {
  auto status = run_of(2);
  status.findings = {{.node = "n01", .code = "sockets", .text = "slow", .since = 5}};
  const auto object = json_of(status);
  EXPECT_EQ(object.at("run_dir"), "runs/cifar-17");
  const auto& first = object.at("nodes").at(0);
  EXPECT_EQ(first.at("tasks").at(1).at("rank"), 1);
  EXPECT_EQ(first.at("tasks").at(1).at("cores"), 0.99);
  EXPECT_EQ(first.at("devices").at(0).at("power_watts"), 412.0);
  EXPECT_EQ(object.at("findings").at(0).at("code"), "sockets");
}

}  // namespace
}  // namespace lockstep
