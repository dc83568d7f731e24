// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/device_sensor.h"

#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
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
      for (const auto& name : names_in(device.folder / "hwmon")) device.hwmon = device.folder / "hwmon" / name;
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

/// Passes on the samples of some of a node's devices.
class AllocatedSensor : public DeviceSensor {
 public:
  AllocatedSensor(std::unique_ptr<DeviceSensor> all, std::size_t on_node, std::set<std::string> pci)
      : all_(std::move(all)), on_node_(on_node), pci_(std::move(pci)) {}

  std::vector<DeviceSample> sample() override {
    auto samples = all_->sample();
    // NVIDIA's driver lists also the devices that a cgroup hides. Those that can be read are then the job's, and the
    // variables count within them.
    if (samples.size() < on_node_) return samples;
    std::erase_if(samples, [this](const auto& each) { return !pci_.contains(each.pci); });
    return samples;
  }

 private:
  std::unique_ptr<DeviceSensor> all_;
  std::size_t on_node_;
  std::set<std::string> pci_;
};

std::unique_ptr<DeviceSensor> sensor_for(const std::vector<Gpu>& gpus, const fs::path& root) {
  if (gpus.empty()) return nullptr;
  if (gpus.front().maker == GpuMaker::kNvidia) return nvml_sensor(load_nvml());
  return amdgpu_sensor(map_each(gpus, [](const auto& gpu) { return gpu.pci; }), root);
}

}  // namespace

std::unique_ptr<DeviceSensor> amdgpu_sensor(const std::vector<std::string>& pci, const fs::path& root) {
  return std::make_unique<AmdgpuSensor>(pci, root);
}

std::unique_ptr<DeviceSensor> sensor_of_node() { return sensor_for(Topology().gpus(), "/"); }

std::unique_ptr<DeviceSensor> sensor_of_tasks(const std::vector<Environment>& tasks, const fs::path& root) {
  const auto gpus = Topology(root).gpus();
  return allocated_sensor(sensor_for(gpus, root), gpus, tasks);
}

std::unique_ptr<DeviceSensor> allocated_sensor(std::unique_ptr<DeviceSensor> all, const std::vector<Gpu>& gpus,
                                               const std::vector<Environment>& tasks) {
  if (!all) return nullptr;
  std::set<std::string> pci;
  for (const auto& task : tasks) {
    const auto allocated = allocated_gpus(gpus, task);
    if (!allocated) return all;
    for (const auto& gpu : *allocated) pci.insert(gpu.pci);
  }
  return std::make_unique<AllocatedSensor>(std::move(all), gpus.size(), std::move(pci));
}

}  // namespace lockstep
