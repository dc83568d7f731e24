// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {

/// `train RECIPE --find lr|batch`: what to set, found by short trainings of which nothing is kept.
///
/// lr: a range test on all ranks. batch: each rank by itself tries batches of twice the size before, all at the same
/// time, until one of them runs out of memory or data; all ranks come to the same answer.
/// Collective: yes. Returns the exit code.
int run_find(const TrainRequest& request, const TrainerProcess& process);

}  // namespace lockstep
