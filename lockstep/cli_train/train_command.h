// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {

/// One rank of `train`: joins the others, trains, and on rank 0 reports.
///
/// Returns the exit code: 0, or kExitStopped where a stop was asked for.
/// Collective: yes.
int run_train(const TrainRequest& request, const TrainerProcess& process);

}  // namespace lockstep
