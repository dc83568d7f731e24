// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/topology.h"

namespace lockstep {

/// One device at one moment. Values that its driver does not report are absent. On an MI250X only one of the two dies
/// reports power.
struct DeviceSample {
  std::string pci{};                     ///< "0000:c1:00.0", the same in every container and for every user.
  std::optional<double> busy_percent{};  ///< Misleading, since a kernel that waits for other ranks counts as busy.
  std::optional<double> power_watts{};
  std::optional<double> temperature_celsius{};
  std::optional<std::uint64_t> memory_used_bytes{};
  std::optional<std::uint64_t> memory_total_bytes{};
};

/// Reads the node's devices, without a device context and without disturbing what runs on them.
class DeviceSensor {
 public:
  virtual ~DeviceSensor() = default;
  /// Returns one sample for each device, in the order of the devices' numbers.
  virtual std::vector<DeviceSample> sample() = 0;
};

/// Returns the sensor for AMD's devices, which reads sysfs. In tests `root` replaces "/".
std::unique_ptr<DeviceSensor> amdgpu_sensor(const std::vector<std::string>& pci,
                                            const std::filesystem::path& root = "/");

/// Returns the sensor for this node's devices. Null if the node has no device that can be read.
std::unique_ptr<DeviceSensor> sensor_of_node();

/// Returns the sensor for the devices that are allocated to `tasks`, which their variables tell. Other jobs may use the
/// node's other devices. It is for all devices that can be read if the variables of one task do not tell, or if a
/// cgroup hides other jobs' devices. Null as above.
std::unique_ptr<DeviceSensor> sensor_of_tasks(const std::vector<Environment>& tasks,
                                              const std::filesystem::path& root = "/");

/// Returns `all`, a sensor for the node's `gpus`, without the devices that are not allocated to `tasks`.
std::unique_ptr<DeviceSensor> allocated_sensor(std::unique_ptr<DeviceSensor> all, const std::vector<Gpu>& gpus,
                                               const std::vector<Environment>& tasks);

}  // namespace lockstep
