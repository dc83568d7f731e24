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

/// Faults come first, such as stuck tasks, a run that broke off, or ranks on plain sockets. Otherwise it is the largest
/// part of the run's time apart from training on a busy device, if that is at least kNoticedLoss of it.
///
/// A device's idle time counts only as far as it cannot have been outside the training's steps, so the real share is at
/// least as large. On CPUs, idle cores that a task has threads for stand for it.
RunVerdict verdict_of(const RunReport& report);

}  // namespace lockstep
