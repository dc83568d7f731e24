// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {

/// Runs `train RECIPE --find lr|batch`. It finds a setting by short trainings and saves nothing.
///
/// lr is a range test on all ranks. For batch, each rank by itself doubles the batch, all at the same time, until one
/// of them runs out of memory or data. All ranks come to the same answer.
/// Collective: yes. Returns the exit code.
int run_find(const TrainRequest& request, const TrainerProcess& process);

}  // namespace lockstep
