// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/telemetry/telemetry.h"

namespace lockstep {

/// From where on a node counts as doing nothing. None was measured on a cluster: `cores` and `busy_percent` are far
/// below what a program that computes uses, and `window_s` is longer than compiling kernels or writing a snapshot
/// mostly takes.
struct HealthLimits {
  double window_s = 300;     ///< Nothing must have happened for so long. 0: nothing is looked for.
  double cores = 0.02;       ///< Of a core; a rank that waits in a socket or a sleep uses less.
  double busy_percent = 5;   ///< Of a device.
  double power_share = 0.6;  ///< Of the most that a device drew: one whose kernels wait for a peer draws far less.
};

/// Something that begins, or is over: then it has no text.
struct HealthFinding {
  std::string code{};  ///< "tasks-stuck" or "device-idle".
  std::string text{};  ///< What, since when, and what to do.
};

/// Finds tasks that do nothing and devices that nobody uses, from a node's samples alone, so for any program.
///
/// `tasks-stuck`: nothing was read or written, no device worked, and no core did. Where devices tell their power, one
/// that is busy but draws little has kernels that wait for a peer: then cores do not count, since the ranks' threads
/// spin. `device-idle`: a device did nothing while the node's tasks did something.
class NodeHealth {
 public:
  explicit NodeHealth(const HealthLimits& limits = {}) : limits_(limits) {}

  /// What this sample begins, each once, and what it ends. Samples come in the order of their times.
  std::vector<HealthFinding> look(const NodeSample& sample);

 private:
  struct Device {
    double used_at = 0;    ///< When it was last seen busy.
    double worked_at = 0;  ///< The same, and not with waiting.
    double most_watts = 0;
  };

  void look_at_tasks(const NodeSample& sample);
  void look_at_device(const DeviceSample& sample, double time, bool tells_power);
  bool is_past(double then, double time) const { return time - then >= limits_.window_s; }
  bool are_devices_waiting(double time) const;
  bool is_stuck(const NodeSample& sample) const;
  std::vector<std::string> idle_devices(double time) const;
  void tell(bool holds, const HealthFinding& finding, std::vector<HealthFinding>& told);

  HealthLimits limits_;
  NodeSample last_{};
  std::map<std::string, Device> devices_{};  ///< By PCI address.
  double cores_used_at_ = 0;
  double disk_used_at_ = 0;
  std::set<std::string> holding_{};  ///< Codes of what was told and is not over.
};

}  // namespace lockstep
