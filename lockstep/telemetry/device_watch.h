// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/telemetry/device_sensor.h"

namespace lockstep {

/// Samples the node's devices on a thread of its own, since a driver can hang for ever. Neither sample() nor the
/// destructor waits for such a driver. If it hangs, the thread lasts as long as the process.
class DeviceWatch {
 public:
  using MakeSensor = std::function<std::unique_ptr<DeviceSensor>()>;

  /// `make` is called on the thread. `patience` is the longest time for which sample() waits.
  explicit DeviceWatch(std::chrono::milliseconds patience, MakeSensor make = sensor_of_node);
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Returns one sample for each device, in the order of the devices' numbers. Empty if the node has none, or if the
  /// driver does not answer. While an earlier answer is still missing, it returns at once.
  std::vector<DeviceSample> sample();
  /// Returns for how many seconds the driver has not answered the last sample(). 0 if it has.
  double silent_s() const;

 private:
  struct Shared;

  std::chrono::milliseconds patience_;
  std::shared_ptr<Shared> shared_;  // The thread has it too.
};

}  // namespace lockstep
