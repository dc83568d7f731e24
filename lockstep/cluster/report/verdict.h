// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// The first statement of a report. It names the run's bottleneck with its number and, separately, advice.
struct RunVerdict {
  /// "start", "validation", "snapshots", "rest", "idle" (devices or cores that do nothing while it trains), "stuck",
  /// "broken", "failed" (its job did), "memory" (the node's ran out), "sockets", "none", or "unknown" if there are no
  /// numbers yet.
  std::string limit{};
  std::string text{};  ///< The facts, in one or two sentences.
  std::string hint{};  ///< Advice. Empty if nothing is to be done.
};

/// Returns the verdict on a run. Faults come first, such as stuck tasks, a run that broke off, or ranks that
/// communicate over plain sockets. Otherwise the verdict names the largest part of the run's time in which it did not
/// train on a busy device, if that part is at least kNoticedLoss.
///
/// A device's idle time counts only if it must have been within the training's steps. So the real share is at least as
/// large. On CPUs, the idle time is that of the cores that a task has threads for.
RunVerdict verdict_of(const RunReport& report);

}  // namespace lockstep
