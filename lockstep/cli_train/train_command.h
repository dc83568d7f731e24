// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {

/// Runs one rank of `train`. It joins the others and trains, and rank 0 reports.
///
/// Returns the exit code, which is 0, or kExitStopped if a stop was requested.
/// Collective: yes.
int run_train(const TrainRequest& request, const TrainerProcess& process);

}  // namespace lockstep
