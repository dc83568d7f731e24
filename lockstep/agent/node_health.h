// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/telemetry/telemetry.h"

namespace lockstep {

/// Limits below which a node counts as idle. None of these values was measured on a cluster. `cores` and `busy_percent`
/// are far below what a computing program uses. `window_s` is longer than most compilations of kernels and most
/// snapshots take.
struct HealthLimits {
  double window_s = 300;     ///< The time without activity, in seconds. 0 turns the search off.
  double cores = 0.02;       ///< In cores. A rank that waits in a socket or a sleep uses less.
  double busy_percent = 5;   ///< Of a device.
  double silence_s = 30;     ///< The time without an answer of the devices' driver, in seconds.
  double power_share = 0.6;  ///< Share of the largest power that a device drew. A device whose kernels wait for a peer
                             ///< draws far less.
};

/// The begin or the end of a state, such as `tasks-stuck`. An end has no text.
struct HealthFinding {
  std::string code{};  ///< "tasks-stuck", "device-idle" or "devices-silent".
  std::string text{};  ///< The fault, its beginning, and the advice.
};

/// Finds idle tasks and idle devices from a node's samples. It needs no information from the program.
///
/// `tasks-stuck` means that nothing was read or written, no device worked, and no core did. If devices report their
/// power, one that is busy but draws little runs kernels that wait for a peer. Busy cores then do not count as work,
/// since the ranks' threads spin while they wait. `device-idle` means that a device did nothing while the node's tasks
/// worked. `devices-silent` means that the devices' driver does not answer. What the devices do is then not known, so
/// neither of the other two begins.
class NodeHealth {
 public:
  explicit NodeHealth(const HealthLimits& limits = {}) : limits_(limits) {}

  /// Returns the states that begin or end with this sample, each once. Samples must come in the order of their times.
  std::vector<HealthFinding> look(const NodeSample& sample);

 private:
  struct Device {
    double used_at = 0;    ///< When it was last seen busy.
    double worked_at = 0;  ///< The same, and not with waiting.
    double most_watts = 0;
    bool tells_use = true;  ///< False for one that is cut into slices (MIG), whose power is that of all their users.
  };

  void look_at_tasks(const NodeSample& sample);
  void look_at_devices(const NodeSample& sample);
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
  std::set<std::string> holding_{};  ///< Codes of the states that have begun and are not over.
};

}  // namespace lockstep
