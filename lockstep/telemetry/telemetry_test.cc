// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/telemetry.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::TemporaryFolder;

NodeSample two_tasks() {
  NodeSample sample{.time = 1.5e9, .memory = {.total_bytes = 1U << 30U, .available_bytes = 1U << 20U}};
  sample.tasks.push_back({.task = {.rank = 3, .local_rank = 1, .pid = 4711},
                          .used = {.cpu_seconds = 1.5,
                                   .memory_bytes = 4096,
                                   .read_bytes = 1,
                                   .written_bytes = 2,
                                   .processes = 3,
                                   .threads = 4,
                                   .state = 'S'}});
  sample.devices.push_back({.pci = "0000:c1:00.0", .busy_percent = 98, .memory_used_bytes = 7});
  return sample;
}

TEST(Telemetry, IsReadBackAsItWasWritten) {
  const TemporaryFolder run;
  const auto path = run.path() / "telemetry-n1.jsonl";
  TelemetryFile file(path, "n1");
  file.write_start(1, 2, 8);
  file.write_sample(two_tasks());
  file.write_warning(2, "sockets", "slow \xff");
  file.write_warning_over(3, "sockets");
  file.write_end(4);
  std::vector<TelemetryLine> lines;
  ASSERT_EQ(telemetry_files(run.path()), std::vector{path});
  read_telemetry(path, [&](const auto& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].event + " " + lines[0].node, "agent_started n1");
  EXPECT_EQ(lines[0].local_world, 8);
  EXPECT_EQ(lines[0].period_s, 2);
  const auto& sample = lines[1].sample;
  EXPECT_EQ(sample.time, 1.5e9);
  ASSERT_EQ(sample.tasks.size(), 1U);
  EXPECT_EQ(sample.tasks[0].task.rank, 3);
  EXPECT_EQ(sample.tasks[0].task.pid, 4711);
  EXPECT_EQ(sample.tasks[0].used.cpu_seconds, 1.5);
  EXPECT_EQ(sample.tasks[0].used.state, 'S');
  EXPECT_EQ(sample.tasks[0].used.written_bytes, 2U);
  EXPECT_EQ(sample.memory.available_bytes, 1U << 20U);
  ASSERT_EQ(sample.devices.size(), 1U);
  EXPECT_EQ(sample.devices[0].busy_percent, 98);
  EXPECT_EQ(sample.devices[0].power_watts, std::nullopt);
  EXPECT_EQ(sample.devices[0].memory_used_bytes, 7U);
  EXPECT_EQ(lines[2].code, "sockets");
  EXPECT_FALSE(lines[2].text.empty());
  EXPECT_EQ(lines[3].event + " " + lines[3].code, "warning_over sockets");
  EXPECT_EQ(lines[4].event, "agent_ended");
}

TEST(Telemetry, LeavesOutWhatIsNoLineOfOurs) {
  const TemporaryFolder run;
  const auto path = run.path() / "telemetry-n1.jsonl";
  std::ofstream(path)
      << "{\"event\":\"sample\",\"node\":\"n1\",\"time\":1,\"tasks\":[7,{\"rank\":\"x\",\"pid\":1.5}],"
         "\"devices\":7}\nno json\n[]\n{\"event\":\"sample\"}\n{\"event\":\"agent_ended\",\"node\":\"n1\"}\n{\"torn";
  std::vector<TelemetryLine> lines;
  read_telemetry(path, [&](const auto& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 2U);
  ASSERT_EQ(lines[0].sample.tasks.size(), 1U);
  EXPECT_EQ(lines[0].sample.tasks[0].task.rank, 0);
  EXPECT_TRUE(lines[0].sample.devices.empty());
  EXPECT_EQ(lines[1].event, "agent_ended");
}

TEST(Telemetry, OfALongFileTheLastWholeLinesAreRead) {
  const TemporaryFolder run;
  const auto path = run.path() / "telemetry-n1.jsonl";
  TelemetryFile file(path, "n1");
  for (int i = 0; i < 100; ++i) {
    auto sample = two_tasks();
    sample.time = i;
    file.write_sample(sample);
  }
  std::vector<double> times;
  read_telemetry(
      path, [&](const auto& line) { times.push_back(line.time); }, 1000);
  ASSERT_GE(times.size(), 2U);
  EXPECT_LT(times.size(), 10U);
  EXPECT_EQ(times.back(), 99);
}

}  // namespace
}  // namespace lockstep
