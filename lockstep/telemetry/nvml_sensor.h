// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/telemetry/device_sensor.h"

namespace lockstep {

/// The functions of NVML for a device's health. Each may be missing, since drivers and devices differ.
struct NvmlHealth {
  using Device = void*;
  std::function<int(Device, unsigned, unsigned, unsigned long long*)> ecc_errors{};  ///< Of a type, by a counter.
  std::function<int(Device, unsigned*, unsigned*, unsigned*, unsigned*)> remapped_rows{};
  std::function<int(Device, unsigned*)> pages_pending{};
  std::function<int(Device, unsigned long long*)> slowdowns{};  ///< Bits.
  std::function<int(Device, unsigned, unsigned*)> program_clock{};
  std::function<int(Device, unsigned, unsigned*)> usual_clock{};
  std::function<int(Device, unsigned, unsigned*)> link_state{};
};

/// The functions of NVML that are used, with their types spelt out, so that its header is not needed. Each returns 0
/// for success.
/// Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ ; the structs are of the "_v2" and "_v3"
/// symbols that every driver since 450 has.
struct Nvml {
  using Device = void*;
  struct Utilization {
    unsigned device = 0;
    unsigned memory = 0;
  };
  struct Memory {
    unsigned long long total = 0;
    unsigned long long free = 0;
    unsigned long long used = 0;
  };
  struct Pci {
    std::array<char, 16> legacy_bus_id{};
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned device = 0;
    unsigned device_id = 0;
    unsigned subsystem_id = 0;
    std::array<char, 32> bus_id{};

    /// The PCI address, such as "0000:c1:00.0", as the kernel writes it.
    std::string address() const;
  };

  std::function<int()> init;
  std::function<int(unsigned*)> count;
  std::function<int(unsigned, Device*)> device_at;
  std::function<int(Device, Pci*)> pci;
  std::function<int(Device, Utilization*)> utilization;
  std::function<int(Device, Memory*)> memory;
  std::function<int(Device, unsigned*)> power_milliwatts;
  std::function<int(Device, unsigned, unsigned*)> temperature;  ///< Of sensor 0, the chip, in degrees.
  NvmlHealth health{};
};

/// Loads the driver's NVML library, which stays loaded. Returns nothing if it is missing.
std::optional<Nvml> load_nvml();

/// Returns a sensor for the devices that `nvml` counts. Null if `nvml` is empty or cannot be initialized.
std::unique_ptr<DeviceSensor> nvml_sensor(std::optional<Nvml> nvml);

}  // namespace lockstep
