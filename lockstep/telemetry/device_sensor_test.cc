// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/device_sensor.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/telemetry/nvml_sensor.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

TEST(DeviceSensors, ReadAmdsDevicesFromSysfs) {
  const TemporaryFolder root;
  const auto write = [&](const std::string& path, const std::string& text) {
    const fs::path file = root.path() / "sys/bus/pci/devices" / path;
    fs::create_directories(file.parent_path());
    write_whole(file, text, /*durable=*/false);
  };
  write("0000:c1:00.0/gpu_busy_percent", "97\n");
  write("0000:c1:00.0/mem_info_vram_used", "11534336\n");
  write("0000:c1:00.0/mem_info_vram_total", "68702699520\n");
  write("0000:c1:00.0/hwmon/hwmon5/power1_average", "301000000\n");
  write("0000:c1:00.0/hwmon/hwmon5/temp1_input", "45000\n");
  // The second die of a module. The power of the first die includes its own.
  write("0000:c6:00.0/gpu_busy_percent", "3\n");
  write("0000:c6:00.0/hwmon/hwmon6/temp1_input", "41500\n");

  const auto samples = amdgpu_sensor({"0000:c1:00.0", "0000:c6:00.0"}, root.path())->sample();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].pci, "0000:c1:00.0");
  EXPECT_EQ(samples[0].busy_percent, 97);
  EXPECT_EQ(samples[0].power_watts, 301);
  EXPECT_EQ(samples[0].temperature_celsius, 45);
  EXPECT_EQ(samples[0].memory_used_bytes, 11534336U);
  EXPECT_EQ(samples[0].memory_total_bytes, 68702699520U);
  EXPECT_EQ(samples[1].power_watts, std::nullopt);
  EXPECT_EQ(samples[1].memory_used_bytes, std::nullopt);
  EXPECT_EQ(samples[1].temperature_celsius, 41.5);
}

/// There are two devices. The job's cgroup hides the first, and the second reports no temperature.
Nvml fake_nvml() {
  Nvml nvml;
  nvml.init = [] { return 0; };
  nvml.count = [](unsigned* count) {
    *count = 2;
    return 0;
  };
  nvml.device_at = [](unsigned index, Nvml::Device* device) {
    *device = reinterpret_cast<Nvml::Device>(static_cast<std::uintptr_t>(index + 1));
    return index == 0 ? 4 : 0;  // NVML_ERROR_NO_PERMISSION
  };
  nvml.pci = [](Nvml::Device, Nvml::Pci* pci) {
    pci->bus = 0xc1;
    return 0;
  };
  nvml.utilization = [](Nvml::Device, Nvml::Utilization* utilization) {
    utilization->device = 88;
    return 0;
  };
  nvml.memory = [](Nvml::Device, Nvml::Memory* memory) {
    memory->total = 40ULL << 30U;
    memory->used = 5ULL << 30U;
    return 0;
  };
  nvml.power_milliwatts = [](Nvml::Device, unsigned* power) {
    *power = 251500;
    return 0;
  };
  nvml.temperature = [](Nvml::Device, unsigned, unsigned*) { return 3; };  // NVML_ERROR_NOT_SUPPORTED
  return nvml;
}

TEST(DeviceSensors, ReadNvidiasDevicesThroughNvml) {
  const auto sensor = nvml_sensor(fake_nvml());
  ASSERT_TRUE(sensor);
  const auto samples = sensor->sample();
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].pci, "0000:c1:00.0");
  EXPECT_EQ(samples[0].busy_percent, 88);
  EXPECT_EQ(samples[0].power_watts, 251.5);
  EXPECT_EQ(samples[0].memory_used_bytes, 5ULL << 30U);
  EXPECT_EQ(samples[0].temperature_celsius, std::nullopt);
}

/// Four devices of a node by NVML's numbers, which do not follow the bus. The job's cgroup shows the second and the
/// last, and the last is cut into slices (MIG).
Nvml shared_node() {
  Nvml nvml = fake_nvml();
  nvml.count = [](unsigned* count) {
    *count = 4;
    return 0;
  };
  nvml.device_at = [](unsigned index, Nvml::Device* device) {
    *device = reinterpret_cast<Nvml::Device>(static_cast<std::uintptr_t>(index + 1));
    return index == 1 || index == 3 ? 0 : 4;  // NVML_ERROR_NO_PERMISSION
  };
  nvml.pci = [](Nvml::Device device, Nvml::Pci* pci) {
    constexpr std::array<unsigned, 4> kBuses{0xc1, 0x81, 0x41, 0x01};
    pci->bus = kBuses.at(reinterpret_cast<std::uintptr_t>(device) - 1);
    return 0;
  };
  nvml.utilization = [](Nvml::Device device, Nvml::Utilization* utilization) {
    if (reinterpret_cast<std::uintptr_t>(device) == 4) return 3;  // NVML_ERROR_NOT_SUPPORTED, as with MIG
    utilization->device = 70;
    return 0;
  };
  return nvml;
}

TEST(DeviceSensors, OfASharedNodeNameTheJobsDevicesByTheirBusAndTellNoUseOfOneWithSlices) {
  // NVML counts the node's devices whatever CUDA_VISIBLE_DEVICES says, so an address is the only name that both share.
  ::setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  const auto sensor = nvml_sensor(shared_node());
  ASSERT_TRUE(sensor);
  const auto samples = sensor->sample();
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].pci, "0000:81:00.0");
  EXPECT_EQ(samples[0].busy_percent, 70);
  EXPECT_EQ(samples[1].pci, "0000:01:00.0");
  EXPECT_EQ(samples[1].busy_percent, std::nullopt);
  EXPECT_EQ(samples[1].memory_total_bytes, 40ULL << 30U);
  EXPECT_EQ(samples[1].power_watts, 251.5);
}

std::string buses(const std::vector<DeviceSample>& samples) {
  std::string text;
  for (const auto& each : samples) text += each.pci.substr(5, 3);
  return text;
}

TEST(DeviceSensors, OfANodeWhoseDevicesNoCgroupHidesNameThoseOfTheTasks) {
  Nvml nvml = shared_node();
  nvml.device_at = [](unsigned index, Nvml::Device* device) {
    *device = reinterpret_cast<Nvml::Device>(static_cast<std::uintptr_t>(index + 1));
    return 0;
  };
  const std::vector<Gpu> gpus{
      {.pci = "0000:01:00.0"}, {.pci = "0000:41:00.0"}, {.pci = "0000:81:00.0"}, {.pci = "0000:c1:00.0"}};
  const auto shown = [&](const std::vector<Environment>& tasks) {
    return buses(allocated_sensor(nvml_sensor(nvml), gpus, tasks)->sample());
  };
  EXPECT_EQ(shown({{{"CUDA_VISIBLE_DEVICES", "1,2"}}}), "81:41:");
  EXPECT_EQ(shown({{{"CUDA_VISIBLE_DEVICES", "2"}}, {{"CUDA_VISIBLE_DEVICES", "3"}}}), "c1:81:") << "a device for each";
  EXPECT_EQ(shown({Environment()}), "c1:81:41:01:");
  EXPECT_EQ(shown({{{"CUDA_VISIBLE_DEVICES", "1"}}, {{"CUDA_VISIBLE_DEVICES", "MIG-1b"}}}), "c1:81:41:01:");
}

TEST(DeviceSensors, OfANodeWithACgroupNameAllThatItLeavesSinceTheListsCountWithinThem) {
  const std::vector<Gpu> gpus{
      {.pci = "0000:01:00.0"}, {.pci = "0000:41:00.0"}, {.pci = "0000:81:00.0"}, {.pci = "0000:c1:00.0"}};
  const auto sensor = allocated_sensor(nvml_sensor(shared_node()), gpus, {{{"CUDA_VISIBLE_DEVICES", "0,1"}}});
  EXPECT_EQ(buses(sensor->sample()), "81:01:");
}

TEST(DeviceSensors, ADriverThatDoesNotStartIsNoSensor) {
  EXPECT_EQ(nvml_sensor(std::nullopt), nullptr);
  Nvml broken = fake_nvml();
  broken.init = [] { return 9; };  // NVML_ERROR_DRIVER_NOT_LOADED
  EXPECT_EQ(nvml_sensor(broken), nullptr);
  EXPECT_EQ(allocated_sensor(nullptr, {{.pci = "0000:01:00.0"}}, {Environment()}), nullptr);
}

}  // namespace
}  // namespace lockstep
