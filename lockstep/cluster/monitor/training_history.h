// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>

#include "lockstep/cluster/monitor/run_status.h"
#include "lockstep/observe/metrics.h"

namespace lockstep {

/// Collects the lines of a run's metrics.jsonl. A start of the run resets the history.
class TrainingHistory {
 public:
  void take(const MetricsLine& line);

  /// Returns the training's state at the time `now`, in seconds since 1970. Nothing if no line has come.
  std::optional<TrainingStatus> status(double now) const;

 private:
  struct Mark {
    double time;
    std::int64_t step;
  };
  void mark(const MetricsLine& line);
  /// Returns the seconds for one step, including its share of validation and snapshots.
  std::optional<double> seconds_a_step() const;

  std::optional<TrainingStatus> told_;
  std::optional<Mark> start_;
  std::deque<Mark> steps_;  // The latest.
};

}  // namespace lockstep
