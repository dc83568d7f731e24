// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/device_sensor.h"

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/topology.h"
#include "lockstep/telemetry/nvml_sensor.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

template <typename Number>
std::optional<Number> number_in(const fs::path& file) {
  try {
    return parsed_int<Number>(trimmed(text_of_file(file)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<double> scaled(std::optional<std::int64_t> value, double unit) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value) / unit;
}

class AmdgpuSensor : public DeviceSensor {
 public:
  AmdgpuSensor(const std::vector<std::string>& pci, const fs::path& root) {
    for (const auto& address : pci) {
      Device device{.pci = address, .folder = root / "sys/bus/pci/devices" / address, .hwmon = {}};
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(device.folder / "hwmon", none)) device.hwmon = entry.path();
      devices_.push_back(std::move(device));
    }
  }

  std::vector<DeviceSample> sample() override {
    std::vector<DeviceSample> samples;
    for (const auto& device : devices_) {
      DeviceSample at{.pci = device.pci};
      at.busy_percent = scaled(number_in<std::int64_t>(device.folder / "gpu_busy_percent"), 1);
      at.memory_used_bytes = number_in<std::uint64_t>(device.folder / "mem_info_vram_used");
      at.memory_total_bytes = number_in<std::uint64_t>(device.folder / "mem_info_vram_total");
      if (!device.hwmon.empty()) {
        // Newer chips report only the present power, older ones only the average.
        auto power = number_in<std::int64_t>(device.hwmon / "power1_average");
        if (!power) power = number_in<std::int64_t>(device.hwmon / "power1_input");
        at.power_watts = scaled(power, 1e6);
        at.temperature_celsius = scaled(number_in<std::int64_t>(device.hwmon / "temp1_input"), 1e3);
      }
      samples.push_back(std::move(at));
    }
    return samples;
  }

 private:
  struct Device {
    std::string pci;
    fs::path folder;
    fs::path hwmon;
  };
  std::vector<Device> devices_;
};

}  // namespace

std::unique_ptr<DeviceSensor> amdgpu_sensor(const std::vector<std::string>& pci, const fs::path& root) {
  return std::make_unique<AmdgpuSensor>(pci, root);
}

std::unique_ptr<DeviceSensor> sensor_of_node() {
  const auto gpus = Topology().gpus();
  if (gpus.empty()) return nullptr;
  if (gpus.front().maker == GpuMaker::kNvidia) return nvml_sensor(load_nvml());
  return amdgpu_sensor(map_each(gpus, [](const auto& gpu) { return gpu.pci; }));
}

}  // namespace lockstep
