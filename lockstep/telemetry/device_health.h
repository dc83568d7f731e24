// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/telemetry/nvml_sensor.h"

namespace lockstep {

/// A driver's report on a device's memory.
struct DeviceMemoryHealth {
  std::optional<std::uint64_t> uncorrectable_errors{};  ///< ECC, since the driver was loaded.
  bool waits_for_reset = false;                         ///< Rows or pages are to be replaced at the next reset.
  bool is_beyond_repair = false;                        ///< A row could not be replaced.
};

/// A driver's report on one device's health. Facts that the driver does not report are absent or false.
struct DeviceHealth {
  std::string pci{};     ///< Its PCI address, such as "0000:c1:00.0". Empty if the device does not report it.
  int number = 0;        ///< Among those that the driver counts.
  bool is_lost = false;  ///< The driver counts it, but cannot reach it, or cannot use it before a reset.
  DeviceMemoryHealth memory{};
  std::vector<std::string> slowed_by{};  ///< The reason for lowered clocks, such as "its temperature". Idleness and the
                                         ///< power cap do not count.
  std::optional<unsigned> clock_mhz{};   ///< The clock that is set for programs, if that is below the usual one.
  std::optional<unsigned> usual_clock_mhz{};
  std::optional<int> links_up{};  ///< NVLinks that are up. Absent for a device without.
};

/// Returns the health of NVIDIA's devices, from NVML, which must have been initialized. Blocks: as long as the driver
/// takes.
std::vector<DeviceHealth> nvidia_health(const Nvml& nvml);

/// Returns the health of AMD's devices, from the files of the amdgpu driver. In tests `root` replaces "/".
std::vector<DeviceHealth> amdgpu_health(const std::vector<std::string>& pci, const std::filesystem::path& root = "/");

/// Returns the health of this node's devices. Empty if no driver can be asked.
std::vector<DeviceHealth> device_health_of_node();

}  // namespace lockstep
