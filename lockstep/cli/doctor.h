// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"

namespace lockstep::cli {

/// The quick part of `lockstep doctor`, for a command that is about to start a run on this machine: what is worse than
/// a note goes to `log`, from the node's first task only. Milliseconds, and no program is started; never throws.
///
/// Returns: whether there is an error among it. The command goes on all the same.
bool tell_quick_findings(const std::string& cluster, const Environment& env, const Log& log);

}  // namespace lockstep::cli
