// SPDX-License-Identifier: Apache-2.0
#include "lockstep/agent/node_health.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// A node with two tasks and a sample every ten seconds. The test sets the tasks' values for each moment.
class Node {
 public:
  explicit Node(int devices = 0) {
    sample_.tasks = {{.task = {.rank = 0, .pid = 10}, .used = {}},
                     {.task = {.rank = 1, .local_rank = 1, .pid = 11}, .used = {}}};
    sample_.devices.resize(static_cast<std::size_t>(devices));
    for (int i = 0; i < devices; ++i)
      sample_.devices[static_cast<std::size_t>(i)].pci = "0000:0" + std::to_string(i) + ":00.0";
  }

  NodeSample& now() { return sample_; }
  void use_cores(double share) {
    for (auto& task : sample_.tasks) task.used.cpu_seconds += share * 10;
  }
  void silence_devices(double seconds) {
    sample_.devices.clear();
    sample_.devices_silent_s = seconds;
  }
  void set_devices(std::optional<double> busy, std::optional<double> watts) {
    for (auto& device : sample_.devices) {
      device.busy_percent = busy;
      device.power_watts = watts;
    }
  }
  std::vector<HealthFinding> look() {
    sample_.time += 10;
    return health_.look(sample_);
  }
  /// Returns the codes of states that begin while the values stay like this for `seconds`, and "-code" for states that
  /// end.
  std::vector<std::string> look_for(double seconds, double cores) {
    std::vector<std::string> codes;
    for (double passed = 0; passed < seconds; passed += 10) {
      use_cores(cores);
      for (const auto& each : look()) codes.push_back((each.text.empty() ? "-" : "") + each.code);
    }
    return codes;
  }

 private:
  NodeSample sample_{.time = 1.7e9};
  NodeHealth health_;
};

using Codes = std::vector<std::string>;

TEST(NodeHealth, TasksThatComputeAreWell) {
  Node node;
  EXPECT_EQ(node.look_for(3600, 0.9), Codes{});
}

TEST(NodeHealth, TasksThatDoNothingForFiveMinutesAreStuckOnceAndNoLongerWhenTheyGoOn) {
  Node node;
  node.look_for(60, 0.9);
  EXPECT_EQ(node.look_for(290, 0.001), Codes{});
  EXPECT_EQ(node.look_for(600, 0.001), Codes{"tasks-stuck"});
  EXPECT_EQ(node.look_for(10, 0.5), Codes{"-tasks-stuck"});
  EXPECT_EQ(node.look_for(400, 0.001), Codes{"tasks-stuck"});
}

TEST(NodeHealth, ARankThatStillComputesOrWritesIsNotStuck) {
  Node node;
  for (int i = 0; i < 100; ++i) {
    node.now().tasks[1].used.cpu_seconds += 9;
    EXPECT_TRUE(node.look().empty());
  }
  for (int i = 0; i < 100; ++i) {
    node.now().tasks[0].used.written_bytes += 4096;
    EXPECT_TRUE(node.look().empty());
  }
}

// NVML tells no use of a device with MIG, and the power that all slices draw. Another job's slice went from busy to
// idle.
TEST(NodeHealth, CoresThatComputeBesideASliceOfADeviceAreNotStuckWhenTheDeviceDrawsLess) {
  Node node(1);
  node.set_devices(std::nullopt, 300);
  EXPECT_EQ(node.look_for(60, 1.0), Codes{});
  node.set_devices(std::nullopt, 90);
  EXPECT_EQ(node.look_for(900, 1.0), Codes{});
  EXPECT_EQ(node.look_for(600, 0.001), Codes{"tasks-stuck"});
}

TEST(NodeHealth, DevicesThatAreBusyButDrawLittleWaitForAPeerThoughThreadsSpin) {
  Node node(2);
  node.set_devices(99, 300);
  EXPECT_EQ(node.look_for(600, 1.0), Codes{});
  node.set_devices(100, 95);
  EXPECT_EQ(node.look_for(290, 1.0), Codes{});
  std::vector<HealthFinding> found;
  for (int i = 0; i < 5 && found.empty(); ++i) {
    node.use_cores(1.0);
    found = node.look();
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].code, "tasks-stuck");
  EXPECT_NE(found[0].text.find("they wait for a peer"), std::string::npos) << found[0].text;
}

TEST(NodeHealth, ADieThatTellsNoPowerIsJudgedByTheOneThatDoes) {
  Node node(2);
  node.set_devices(99, 300);
  node.now().devices[1].power_watts.reset();
  EXPECT_EQ(node.look_for(600, 1.0), Codes{});
  node.now().devices[0].power_watts = 90;
  EXPECT_EQ(node.look_for(400, 1.0), Codes{"tasks-stuck"});
}

TEST(NodeHealth, DevicesWithoutPowerThatAreBusyAreTakenToWork) {
  Node node(1);
  node.set_devices(50, std::nullopt);
  EXPECT_EQ(node.look_for(900, 0.001), Codes{});
}

TEST(NodeHealth, ADeviceThatNobodyUsesIsNamedWhileTheTasksCompute) {
  Node node(4);
  node.set_devices(90, 280);
  node.now().devices[3].busy_percent = 0;
  node.now().devices[3].power_watts = 60;
  std::vector<HealthFinding> found;
  for (int i = 0; i < 40 && found.empty(); ++i) {
    node.use_cores(1.0);
    found = node.look();
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].code, "device-idle");
  EXPECT_TRUE(found[0].text.starts_with("1 of 4 devices (0000:03:00.0) did nothing for 5 min")) << found[0].text;
  node.now().devices[3].busy_percent = 80;
  EXPECT_EQ(node.look_for(20, 1.0), Codes{"-device-idle"});
}

TEST(NodeHealth, AProgramThatUsesNoDeviceIsToldThatNoneWorks) {
  Node node(2);
  node.set_devices(0, 60);
  std::vector<HealthFinding> found;
  for (int i = 0; i < 40 && found.empty(); ++i) {
    node.use_cores(1.0);
    found = node.look();
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].text.starts_with("none of the 2 devices worked for 5 min, though the tasks compute"))
      << found[0].text;
}

TEST(NodeHealth, OfDevicesWhoseDriverIsSilentOnlyTheSilenceIsTold) {
  Node node(2);
  node.set_devices(90, 280);
  EXPECT_EQ(node.look_for(60, 1.0), Codes{});
  node.silence_devices(10);
  EXPECT_EQ(node.look_for(10, 1.0), Codes{});
  node.silence_devices(30);
  EXPECT_EQ(node.look_for(10, 1.0), Codes{"devices-silent"});
  EXPECT_EQ(node.look_for(3600, 0.0), Codes{}) << "the devices may work";
  node.silence_devices(0);
  EXPECT_EQ(node.look_for(3600, 1.0), Codes{"-devices-silent"});
}

TEST(NodeHealth, ADeviceThatIsNoLongerReportedIsNotIdle) {
  Node node(2);
  node.set_devices(90, 280);
  node.look_for(60, 1.0);
  node.now().devices.pop_back();
  EXPECT_EQ(node.look_for(3600, 1.0), Codes{});
}

TEST(NodeHealth, NothingIsLookedForWhereTheWindowIsZero) {
  NodeHealth health({.window_s = 0});
  NodeSample sample{.time = 1, .tasks = {{}}};
  EXPECT_TRUE(health.look(sample).empty());
  sample.time = 1e6;
  EXPECT_TRUE(health.look(sample).empty());
}

}  // namespace
}  // namespace lockstep
