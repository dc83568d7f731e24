// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/cluster/monitor/run_status.h"
#include "lockstep/cluster/record/node_findings.h"
#include "lockstep/telemetry/telemetry.h"

namespace lockstep {

/// Collects the lines of one node's telemetry.
class NodeHistory {
 public:
  /// Takes the next line of this node's telemetry. A start of its agent resets the history.
  void take(const TelemetryLine& line);

  /// Returns the node's state at the time `now`, in seconds since 1970.
  NodeStatus status(double now) const;
  /// True if the node's agent has not ended, and its last sample is not older than three of its sampling periods.
  bool is_fresh(double now) const;
  bool has_ended() const { return has_ended_; }
  std::vector<NodeFinding> findings() const { return findings_.open(); }  ///< Not over.

 private:
  double period_s_ = 2;
  int local_world_ = 0;
  std::string node_;
  bool has_ended_ = false;
  double started_ = 0;
  std::optional<NodeSample> before_;
  std::optional<NodeSample> last_;
  NodeFindings findings_;
};

/// Returns the rank that differs from all others. That rank is the only one that waits for a disk or a device, or the
/// only one that used a core, or the only one that used none. Returns nothing if there is no such single rank, or if
/// there are fewer than two ranks.
std::optional<OddRank> odd_rank(std::span<const NodeStatus> nodes);

}  // namespace lockstep
