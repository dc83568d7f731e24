// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"

namespace lockstep::cli {

/// The part of `lockstep doctor` that a command checks before it starts a run.
struct QuickLook {
  std::string cluster = "auto";
  std::function<bool(const std::string& code)> concerns;  ///< True if a finding of this code is about the run.
};

/// Runs the quick checks of `lockstep doctor`, and logs findings above a note, from the node's first task only. It
/// takes milliseconds, starts no program and never throws. LOCKSTEP_DOCTOR=off skips it.
///
/// Returns true if a finding is an error, which means that the run would fail or be slow without a message.
bool tell_quick_findings(const QuickLook& look, const Environment& env, const Log& log);

}  // namespace lockstep::cli
