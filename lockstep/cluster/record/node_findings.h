// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/telemetry/telemetry.h"

namespace lockstep {

/// A warning of a node's agent. Times are in seconds since 1970.
struct NodeFinding {
  std::string node{};
  std::string code{};  ///< Empty from an agent that gave none.
  std::string text{};
  double since = 0;
  std::optional<double> over{};  ///< When it ended. Nothing if that is not recorded.

  std::string fact() const;  ///< `text` up to its hint.
  std::string hint() const;  ///< Returns advice. Empty if the agent gave none.
};

/// Collects one node's warnings from the lines of its telemetry.
class NodeFindings {
 public:
  /// Takes the next line. Only lines on warnings and their ends are used. The first hundred warnings are kept.
  void take(const TelemetryLine& line);

  const std::vector<NodeFinding>& all() const { return all_; }
  /// Returns the warnings that have not ended.
  std::vector<NodeFinding> open() const;

 private:
  std::vector<NodeFinding> all_;
};

}  // namespace lockstep
