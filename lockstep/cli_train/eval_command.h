// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/recipe/eval_request.h"

namespace lockstep {

/// Run one rank of `eval`, and one rank of `predict`. Both return the exit code.
/// Collective: yes.
int run_eval(const EvalRequest& request, const TrainerProcess& process);
int run_predict(const EvalRequest& request, const TrainerProcess& process);

}  // namespace lockstep
