// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {

/// One rank of `train`: joins the others, trains, and on rank 0 reports.
///
/// Returns the exit code: 0, or kExitStopped where a stop was asked for.
/// Collective: yes.
int run_train(const TrainRequest& request, const Environment& env);

}  // namespace lockstep
