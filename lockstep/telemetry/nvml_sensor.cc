// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/nvml_sensor.h"

#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// Sets `function` to the library's symbol of this name. Returns false if the library has no such symbol.
template <typename Result, typename... Arguments>
bool find(void* library, const char* name, std::function<Result(Arguments...)>& function) {
  void* symbol = ::dlsym(library, name);
  if (symbol == nullptr) return false;
  function = reinterpret_cast<Result (*)(Arguments...)>(symbol);
  return true;
}

class NvmlSensor : public DeviceSensor {
 public:
  explicit NvmlSensor(Nvml nvml) : nvml_(std::move(nvml)) {
    unsigned count = 0;
    if (nvml_.count(&count) != 0) return;
    for (unsigned index = 0; index < count; ++index) {
      Nvml::Device device = nullptr;
      Nvml::Pci pci;
      // NVML also counts devices that the job's cgroup hides, but these cannot be opened. They are skipped.
      if (nvml_.device_at(index, &device) != 0 || nvml_.pci(device, &pci) != 0) continue;
      devices_.emplace_back(device, pci.address());
    }
  }

  std::vector<DeviceSample> sample() override {
    std::vector<DeviceSample> samples;
    for (const auto& [device, pci] : devices_) {
      DeviceSample at{.pci = pci};
      Nvml::Utilization utilization;
      if (nvml_.utilization(device, &utilization) == 0) at.busy_percent = utilization.device;
      Nvml::Memory memory;
      if (nvml_.memory(device, &memory) == 0) {
        at.memory_used_bytes = memory.used;
        at.memory_total_bytes = memory.total;
      }
      unsigned value = 0;
      if (nvml_.power_milliwatts(device, &value) == 0) at.power_watts = value / 1e3;
      if (nvml_.temperature(device, 0, &value) == 0) at.temperature_celsius = value;
      samples.push_back(std::move(at));
    }
    return samples;
  }

 private:
  Nvml nvml_;
  std::vector<std::pair<Nvml::Device, std::string>> devices_;
};

NvmlHealth health_calls(void* library) {
  NvmlHealth calls;
  find(library, "nvmlDeviceGetTotalEccErrors", calls.ecc_errors);
  find(library, "nvmlDeviceGetRemappedRows", calls.remapped_rows);
  find(library, "nvmlDeviceGetRetiredPagesPendingStatus", calls.pages_pending);
  find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", calls.slowdowns);
  find(library, "nvmlDeviceGetApplicationsClock", calls.program_clock);
  find(library, "nvmlDeviceGetDefaultApplicationsClock", calls.usual_clock);
  find(library, "nvmlDeviceGetNvLinkState", calls.link_state);
  return calls;
}

}  // namespace

std::string Nvml::Pci::address() const {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.0", domain, bus, device);
  return text.data();
}

std::optional<Nvml> load_nvml() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Nvml nvml;
  const bool is_whole = find(library, "nvmlInit_v2", nvml.init) && find(library, "nvmlDeviceGetCount_v2", nvml.count) &&
                        find(library, "nvmlDeviceGetHandleByIndex_v2", nvml.device_at) &&
                        find(library, "nvmlDeviceGetPciInfo_v3", nvml.pci) &&
                        find(library, "nvmlDeviceGetUtilizationRates", nvml.utilization) &&
                        find(library, "nvmlDeviceGetMemoryInfo", nvml.memory) &&
                        find(library, "nvmlDeviceGetPowerUsage", nvml.power_milliwatts) &&
                        find(library, "nvmlDeviceGetTemperature", nvml.temperature);
  if (!is_whole) return std::nullopt;
  nvml.health = health_calls(library);
  return nvml;
}

std::unique_ptr<DeviceSensor> nvml_sensor(std::optional<Nvml> nvml) {
  if (!nvml || nvml->init() != 0) return nullptr;
  return std::make_unique<NvmlSensor>(std::move(*nvml));
}

}  // namespace lockstep
