// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/health.h"

#include <gtest/gtest.h>

#include "tests/support/fake_node.h"
#include "tests/support/node_faults.h"

namespace lockstep {
namespace {

using testing::Change;
using testing::Fault;
using testing::file;
using testing::found;
using testing::JuwelsNode;
using testing::listed;
using testing::LumiNode;

/// Four healthy devices with twelve NVLinks each. `change` alters the second device.
Change devices(const std::function<void(DeviceHealth&)>& change) {
  return [=](testing::FakeNode& node) {
    std::vector<DeviceHealth> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(
          {.pci = "0000:" + std::string(1, static_cast<char>('3' + i)) + "1:00.0", .number = i, .links_up = 12});
    }
    change(all[1]);
    node.of.system.device_health = [all] { return all; };
  };
}

const Change kSound = devices([](DeviceHealth&) {});

struct SickCase {
  Fault fault;
  Severity severity;
};

const std::vector<SickCase> kOnJuwels = {
    {{"ADeviceThatDoesNotAnswer", "devices-lost", "reaches device 0000:41:00.0 no more",
      devices([](DeviceHealth& of) { of.is_lost = true; }), kSound},
     Severity::kError},
    {{"RowsThatWaitForAReset", "devices-memory-broken", "only repaired by a reset",
      devices([](DeviceHealth& of) { of.memory.waits_for_reset = true; }), kSound},
     Severity::kError},
    {{"ARowThatCouldNotBeReplaced", "devices-memory-broken", "a row remap failed",
      devices([](DeviceHealth& of) { of.memory.is_beyond_repair = true; }), kSound},
     Severity::kError},
    {{"ErrorsThatWereContained", "devices-memory-errors", "3 uncorrectable memory errors",
      devices([](DeviceHealth& of) { of.memory.uncorrectable_errors = 3; }), kSound},
     Severity::kWarning},
    {{"AHotDevice", "devices-throttled", "0000:41:00.0 is held down by its temperature",
      devices([](DeviceHealth& of) { of.slowed_by = {"its temperature"}; }), kSound},
     Severity::kWarning},
    {{"AClockOfAnEarlierJob", "devices-clock-lowered", "set to 705 MHz, want its usual 1095 MHz",
      devices([](DeviceHealth& of) {
        of.clock_mhz = 705;
        of.usual_clock_mhz = 1095;
      }),
      kSound},
     Severity::kWarning},
    {{"AnNvlinkThatIsDown", "devices-links-down", "0000:41:00.0 has 11 NVLinks up, others of the node have 12",
      devices([](DeviceHealth& of) { of.links_up = 11; }), kSound},
     Severity::kWarning},
    {{"ASlotWithAPoorContact", "devices-pcie-narrow", "linked by 8 PCI Express lanes, want 16",
      [](testing::FakeNode& node) {
        node.write("/sys/bus/pci/devices/0000:41:00.0/max_link_width", "16\n");
        node.write("/sys/bus/pci/devices/0000:41:00.0/current_link_width", "8\n");
      },
      file("/sys/bus/pci/devices/0000:41:00.0/current_link_width", "16\n")},
     Severity::kWarning},
    {{"AnAdapterThatRunsSlow", "network-adapter-slow", "mlx5_1 runs at 100 Gb/s, want 200 Gb/s",
      file("/sys/class/infiniband/mlx5_1/ports/1/rate", "100 Gb/sec (2X HDR)\n"),
      file("/sys/class/infiniband/mlx5_1/ports/1/rate", "200 Gb/sec (4X HDR)\n")},
     Severity::kWarning},
    {{"ADeviceTheDriverDoesNotList", "devices-fewer", "gave the job 4 devices on this node, but 3 can be used",
      [](testing::FakeNode& node) {
        node.slurm(2, 1, 4);
        node.remove("/proc/driver/nvidia/gpus/0000:41:00.0");
      },
      [](testing::FakeNode& node) { node.nvidia_gpus(4); }},
     Severity::kError},
};

TEST(HealthFault, IsFoundWithItsSeverityAndNotWithoutIt) {
  for (const auto& [fault, severity] : kOnJuwels) {
    SCOPED_TRACE(fault.name);
    JuwelsNode node;
    expect_fault(node, fault);
    fault.broken(node);
    const auto findings = node.findings();
    ASSERT_NE(found(findings, fault.code), nullptr) << listed(findings);
    EXPECT_EQ(found(findings, fault.code)->severity, severity);
  }
}

TEST(Health, SaysNothingOfSoundDevices) {
  JuwelsNode node;
  kSound(node);
  Findings findings;
  check_device_health(node.of, findings);
  check_links(node.of, findings);
  EXPECT_EQ(listed(findings.list()), "");
}

TEST(Health, TakesDevicesThatAreDealtOutToTasksForWhatTheyAre) {
  JuwelsNode node;
  for (const bool has_one_task : {false, true}) {
    node.slurm(2, has_one_task ? 1 : 4, 4);
    if (has_one_task) node.set("SLURM_GPUS_PER_TASK", "1");
    for (const char* other : {"1", "2", "3"}) node.remove(std::string("/dev/nvidia") + other);
    EXPECT_EQ(found(node.findings(), "devices-fewer"), nullptr) << listed(node.findings());
  }
}

TEST(Health, SaysNothingOfAnotherJobsDevices) {
  JuwelsNode node;
  node.of.system.device_health = [] {
    DeviceHealth other{.pci = "0000:99:00.0", .number = 7};
    other.memory.waits_for_reset = true;
    return std::vector{other};
  };
  Findings findings;
  check_device_health(node.of, findings);
  EXPECT_EQ(listed(findings.list()), "");
}

TEST(Health, TakesASlotWithFewerLanesForWhatItIs) {
  JuwelsNode node;
  node.write("/sys/devices/pci0000:40/0000:40:01.0/max_link_width", "8\n");
  node.write("/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/max_link_width", "16\n");
  node.write("/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/current_link_width", "8\n");
  node.remove("/sys/bus/pci/devices/0000:41:00.0");
  std::filesystem::create_directory_symlink(node.path("/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0"),
                                            node.path("/sys/bus/pci/devices/0000:41:00.0"));
  Findings findings;
  check_links(node.of, findings);
  EXPECT_EQ(listed(findings.list()), "");
}

TEST(Health, ReadsSlingshotsRateOfRealInterfacesAlone) {
  LumiNode node;
  const auto said = [&] {
    Findings findings;
    Findings ignored;
    place(node.of, ignored);
    check_links(node.of, findings);
    return listed(findings.list());
  };
  node.write("/sys/class/net/hsn2/speed", "10000\n");
  EXPECT_EQ(said(), "");
  node.write("/sys/class/net/hsn2/device/vendor", "0x17db\n");
  EXPECT_NE(said().find("hsn2 runs at 10 Gb/s, want 200 Gb/s"), std::string::npos) << said();
  node.write("/sys/class/net/hsn2/speed", "200000\n");
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace lockstep
