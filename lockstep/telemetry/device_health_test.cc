// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/device_health.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

constexpr int kNotSupported = 3;

std::uintptr_t number_of(Nvml::Device device) { return reinterpret_cast<std::uintptr_t>(device); }

/// Simulates `count` healthy devices, with only those functions of NVML that every driver has.
Nvml plain_nvml(unsigned count) {
  Nvml nvml;
  nvml.init = [] { return 0; };
  nvml.count = [count](unsigned* result) {
    *result = count;
    return 0;
  };
  nvml.device_at = [](unsigned index, Nvml::Device* device) {
    *device = reinterpret_cast<Nvml::Device>(static_cast<std::uintptr_t>(index + 1));
    return 0;
  };
  nvml.pci = [](Nvml::Device device, Nvml::Pci* pci) {
    pci->bus = static_cast<unsigned>(0x10 * number_of(device));
    return 0;
  };
  nvml.memory = [](Nvml::Device, Nvml::Memory*) { return 0; };
  return nvml;
}

TEST(DeviceHealth, OfADriverThatTellsNothingHasNothingToSay) {
  const auto all = nvidia_health(plain_nvml(2));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].pci, "0000:20:00.0");
  for (const auto& each : all) {
    EXPECT_FALSE(each.is_lost || each.memory.waits_for_reset || each.memory.is_beyond_repair);
    EXPECT_EQ(each.memory.uncorrectable_errors, std::nullopt);
    EXPECT_TRUE(each.slowed_by.empty());
    EXPECT_EQ(each.clock_mhz, std::nullopt);
    EXPECT_EQ(each.links_up, std::nullopt);
  }
}

TEST(DeviceHealth, OfADeviceThatFellOffTheBusIsLostAndNotThatOfAHiddenOne) {
  auto nvml = plain_nvml(3);
  nvml.device_at = [](unsigned index, Nvml::Device* device) {
    *device = reinterpret_cast<Nvml::Device>(static_cast<std::uintptr_t>(index + 1));
    return index == 0 ? 15 : index == 1 ? 4 : 0;  // NVML_ERROR_GPU_IS_LOST, NVML_ERROR_NO_PERMISSION
  };
  nvml.memory = [](Nvml::Device, Nvml::Memory*) { return 16; };  // NVML_ERROR_RESET_REQUIRED
  const auto all = nvidia_health(nvml);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all[0].is_lost);
  EXPECT_EQ(all[0].pci, "");
  EXPECT_TRUE(all[1].is_lost);
  EXPECT_EQ(all[1].pci, "0000:30:00.0");
}

TEST(DeviceHealth, ReadsMemoryClocksAndLinksByNvmlsNumbers) {
  auto nvml = plain_nvml(1);
  nvml.health.ecc_errors = [](Nvml::Device, unsigned type, unsigned counter, unsigned long long* errors) {
    *errors = type == 1 && counter == 0 ? 7 : 100;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
    return 0;
  };
  nvml.health.remapped_rows = [](Nvml::Device, unsigned*, unsigned*, unsigned* waits, unsigned* failed) {
    *waits = 1;
    *failed = 0;
    return 0;
  };
  nvml.health.slowdowns = [](Nvml::Device, unsigned long long* reasons) {
    *reasons = 0x1 | 0x4 | 0x40;  // idle, power cap, HW thermal slowdown
    return 0;
  };
  nvml.health.program_clock = [](Nvml::Device, unsigned, unsigned* mhz) {
    *mhz = 705;
    return 0;
  };
  nvml.health.usual_clock = [](Nvml::Device, unsigned, unsigned* mhz) {
    *mhz = 1095;
    return 0;
  };
  nvml.health.link_state = [](Nvml::Device, unsigned link, unsigned* is_up) {
    *is_up = link == 2 ? 0 : 1;
    return link < 12 ? 0 : kNotSupported;
  };
  const auto health = nvidia_health(nvml).at(0);
  EXPECT_EQ(health.memory.uncorrectable_errors, 7U);
  EXPECT_TRUE(health.memory.waits_for_reset);
  EXPECT_FALSE(health.memory.is_beyond_repair);
  EXPECT_EQ(health.slowed_by, std::vector<std::string>{"its temperature (HW thermal slowdown)"});
  EXPECT_EQ(health.clock_mhz, 705U);
  EXPECT_EQ(health.usual_clock_mhz, 1095U);
  EXPECT_EQ(health.links_up, 11);
}

TEST(DeviceHealth, OfAnOlderDeviceCountsPagesThatWait) {
  auto nvml = plain_nvml(1);
  nvml.health.remapped_rows = [](Nvml::Device, unsigned*, unsigned*, unsigned*, unsigned*) { return kNotSupported; };
  nvml.health.pages_pending = [](Nvml::Device, unsigned* waits) {
    *waits = 1;
    return 0;
  };
  EXPECT_TRUE(nvidia_health(nvml).at(0).memory.waits_for_reset);
}

TEST(DeviceHealth, ReadsAmdsErrorsOfAllBlocksFromSysfs) {
  const TemporaryFolder root;
  const auto write = [&](const std::string& path, const std::string& text) {
    const fs::path file = root.path() / "sys/bus/pci/devices/0000:c1:00.0" / path;
    fs::create_directories(file.parent_path());
    write_whole(file, text, /*durable=*/false);
  };
  write("ras/umc_err_count", "ue: 2\nce: 5\n");
  write("ras/xgmi_wafl_err_count", "ue: 1\nce: 0\n");
  write("ras/features", "feature mask: 0x7\n");
  write("power_dpm_force_performance_level", "low\n");
  const auto all = amdgpu_health({"0000:c1:00.0", "0000:c6:00.0"}, root.path());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].memory.uncorrectable_errors, 3U);
  EXPECT_EQ(all[0].slowed_by.size(), 1U);
  EXPECT_EQ(all[1].memory.uncorrectable_errors, std::nullopt);
  EXPECT_TRUE(all[1].slowed_by.empty());
}

}  // namespace
}  // namespace lockstep
