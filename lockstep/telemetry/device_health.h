// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/telemetry/nvml_sensor.h"

namespace lockstep {

/// What a driver says of a device's memory.
struct DeviceMemoryHealth {
  std::optional<std::uint64_t> uncorrectable_errors{};  ///< ECC, since the driver was loaded.
  bool waits_for_reset = false;                         ///< Rows or pages are to be replaced at the next reset.
  bool is_beyond_repair = false;                        ///< A row could not be replaced.
};

/// What a driver says of one device's health. What it does not tell is absent or false.
struct DeviceHealth {
  std::string pci{};     ///< "0000:c1:00.0"; empty for one that does not even tell its address.
  int number = 0;        ///< Among those that the driver counts.
  bool is_lost = false;  ///< The driver counts it, but cannot reach it, or cannot use it before a reset.
  DeviceMemoryHealth memory{};
  std::vector<std::string>
      slowed_by{};  ///< Of what holds its clocks down: "its temperature". Idleness and the power cap are none.
  std::optional<unsigned> clock_mhz{};  ///< The clock that is set for programs, where that is below the usual one.
  std::optional<unsigned> usual_clock_mhz{};
  std::optional<int> links_up{};  ///< NVLinks that are up; absent for a device without.
};

/// Asks NVML, which must have been started. Blocks: as long as the driver does.
std::vector<DeviceHealth> nvidia_health(const Nvml& nvml);

/// Reads amdgpu's files. `root` stands for "/" in tests.
std::vector<DeviceHealth> amdgpu_health(const std::vector<std::string>& pci, const std::filesystem::path& root = "/");

/// The health of this node's devices; empty where there is none that can be asked.
std::vector<DeviceHealth> device_health_of_node();

}  // namespace lockstep
