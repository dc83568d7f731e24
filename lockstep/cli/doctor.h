// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"

namespace lockstep::cli {

/// What of `lockstep doctor` a command looks at that is about to start a run.
struct QuickLook {
  std::string cluster = "auto";
  std::function<bool(const std::string& code)> concerns;  ///< A claim: a finding of this code is about the run.
};

/// The quick part of `lockstep doctor`: what is worse than a note goes to `log`, from the node's first task only.
/// Milliseconds, and no program is started; never throws. LOCKSTEP_DOCTOR=off leaves it out.
///
/// Returns: whether there is an error among it: the run would fail, or be slow without a word.
bool tell_quick_findings(const QuickLook& look, const Environment& env, const Log& log);

}  // namespace lockstep::cli
