// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {

/// Runs one rank of `train`. It joins the others and trains, and rank 0 reports.
///
/// Returns the exit code, which is 0, or kExitStopped if a stop was requested.
/// Collective: yes.
int run_train(const TrainRequest& request, const Environment& env);

}  // namespace lockstep
