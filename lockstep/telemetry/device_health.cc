// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/device_health.h"

#include <array>

#include "lockstep/base/map_each.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/topology.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Source: nvml.h.
constexpr int kGpuIsLost = 15;
constexpr int kResetRequired = 16;
constexpr unsigned kUncorrected = 1;      // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr unsigned kSinceLoad = 0;        // NVML_VOLATILE_ECC
constexpr unsigned kMultiprocessors = 1;  // NVML_CLOCK_SM
constexpr unsigned kMostLinks = 18;       // NVML_NVLINK_MAX_LINKS

struct Slowdown {
  unsigned long long bit;  ///< nvmlClocksThrottleReason…
  const char* why;
};
constexpr auto kSlowdowns = std::to_array<Slowdown>({
    {0x08, "its board (HW slowdown)"},
    {0x20, "its temperature (SW thermal slowdown)"},
    {0x40, "its temperature (HW thermal slowdown)"},
    {0x80, "the power supply (HW power brake)"},
});

/// True if the library has the function `call`, and the call succeeds.
template <typename Call, typename... Arguments>
bool tells(const Call& call, Arguments... arguments) {
  return call && call(arguments...) == 0;
}

DeviceMemoryHealth nvidia_memory(const NvmlHealth& ask, Nvml::Device device) {
  DeviceMemoryHealth memory;
  unsigned long long errors = 0;
  if (tells(ask.ecc_errors, device, kUncorrected, kSinceLoad, &errors)) memory.uncorrectable_errors = errors;
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned waits = 0;
  unsigned failed = 0;
  if (tells(ask.remapped_rows, device, &corrected, &uncorrected, &waits, &failed)) {
    memory.waits_for_reset = waits != 0;
    memory.is_beyond_repair = failed != 0;
  } else if (tells(ask.pages_pending, device, &waits)) {
    // Before Ampere pages were retired, not rows remapped.
    memory.waits_for_reset = waits != 0;
  }
  return memory;
}

void look_at_clocks(const NvmlHealth& ask, Nvml::Device device, DeviceHealth& health) {
  unsigned long long reasons = 0;
  if (tells(ask.slowdowns, device, &reasons)) {
    for (const auto& each : kSlowdowns) {
      if ((reasons & each.bit) != 0) health.slowed_by.emplace_back(each.why);
    }
  }
  unsigned clock = 0;
  unsigned usual = 0;
  // The present clock of an idle device tells nothing. So this reads the clock that is set for programs.
  if (tells(ask.program_clock, device, kMultiprocessors, &clock) &&
      tells(ask.usual_clock, device, kMultiprocessors, &usual) && clock > 0 && clock < usual) {
    health.clock_mhz = clock;
    health.usual_clock_mhz = usual;
  }
}

std::optional<int> nvlinks_up(const NvmlHealth& ask, Nvml::Device device) {
  std::optional<int> up;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned is_up = 0;
    if (!tells(ask.link_state, device, link, &is_up)) break;
    up = up.value_or(0) + (is_up != 0 ? 1 : 0);
  }
  return up;
}

/// Parses the content of ras/BLOCK_err_count, such as "ue: 0\nce: 3\n". Source: the kernel's
/// Documentation/gpu/amdgpu/ras.rst.
std::uint64_t uncorrectable_in(const std::string& text) {
  for (const auto& line : split(text, '\n')) {
    if (line.starts_with("ue:"))
      return parsed_int<std::uint64_t>(trimmed(std::string_view(line).substr(3))).value_or(0);
  }
  return 0;
}

}  // namespace

std::vector<DeviceHealth> nvidia_health(const Nvml& nvml) {
  std::vector<DeviceHealth> all;
  unsigned count = 0;
  if (nvml.count(&count) != 0) return all;
  for (unsigned index = 0; index < count; ++index) {
    DeviceHealth health{.number = static_cast<int>(index)};
    Nvml::Device device = nullptr;
    Nvml::Pci pci;
    int status = nvml.device_at(index, &device);
    if (status == 0) status = nvml.pci(device, &pci);
    if (status == 0) health.pci = pci.address();
    Nvml::Memory memory;
    if (status == 0) status = nvml.memory(device, &memory);
    health.is_lost = status == kGpuIsLost || status == kResetRequired;
    // NVML also counts devices that the job's cgroup hides, but these cannot be opened. They are skipped.
    if (health.pci.empty() && !health.is_lost) continue;
    if (!health.is_lost) {
      health.memory = nvidia_memory(nvml.health, device);
      look_at_clocks(nvml.health, device, health);
      health.links_up = nvlinks_up(nvml.health, device);
    }
    all.push_back(std::move(health));
  }
  return all;
}

std::vector<DeviceHealth> amdgpu_health(const std::vector<std::string>& pci, const fs::path& root) {
  std::vector<DeviceHealth> all;
  for (const auto& address : pci) {
    DeviceHealth health{.pci = address, .number = static_cast<int>(all.size())};
    const auto folder = root / "sys/bus/pci/devices" / address;
    for (const auto& name : names_in(folder / "ras")) {
      if (!name.ends_with("_err_count")) continue;
      health.memory.uncorrectable_errors =
          health.memory.uncorrectable_errors.value_or(0) + uncorrectable_in(text_or_nothing(folder / "ras" / name));
    }
    if (trimmed(text_or_nothing(folder / "power_dpm_force_performance_level")) == "low") {
      health.slowed_by.emplace_back("a setting (power_dpm_force_performance_level is low)");
    }
    all.push_back(std::move(health));
  }
  return all;
}

std::vector<DeviceHealth> device_health_of_node() {
  const auto gpus = Topology().gpus();
  if (gpus.empty()) return {};
  if (gpus.front().maker == GpuMaker::kAmd)
    return amdgpu_health(map_each(gpus, [](const auto& gpu) { return gpu.pci; }));
  const auto nvml = load_nvml();
  if (!nvml || nvml->init() != 0) return {};
  return nvidia_health(*nvml);
}

}  // namespace lockstep
