// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// What a report says first: what holds the run up, with its number; and, apart from it, what to try.
struct RunVerdict {
  /// "start", "validation", "snapshots", "rest", "idle" (devices or cores that do nothing while it trains), "stuck",
  /// "broken", "failed" (its job did), "memory" (the node's ran out), "sockets", "none", or "unknown" where there are
  /// no numbers yet.
  std::string limit{};
  std::string text{};  ///< What is known, in one or two sentences.
  std::string hint{};  ///< What to try; empty if nothing is to be done.
};

/// Trouble comes first: tasks that are stuck, a run that broke off, ranks on plain sockets. Else it is whatever takes
/// most of the run's time besides training on a busy device, where that is at least kNoticedLoss of it.
///
/// Of a device's idle time only as much counts as cannot have been outside the training's steps, so it is at least so
/// much; on processors, cores that a task has threads for and does not use stand for it.
RunVerdict verdict_of(const RunReport& report);

}  // namespace lockstep
