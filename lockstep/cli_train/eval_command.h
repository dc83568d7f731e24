// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/recipe/eval_request.h"

namespace lockstep {

/// One rank of `eval`, and of `predict`. Both return the exit code.
/// Collective: yes.
int run_eval(const EvalRequest& request, const Environment& env);
int run_predict(const EvalRequest& request, const Environment& env);

}  // namespace lockstep
