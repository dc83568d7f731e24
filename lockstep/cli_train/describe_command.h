// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {

/// What `lockstep-train describe` was asked for: what `lockstep plan` needs to know of a training.
struct DescribeRequest {
  TrainRequest train;
  std::vector<std::int64_t> batches;  ///< Of one rank, each to be timed; by default the recipe's.
  bool counts_only = false;           ///< Two samples, nothing timed: for another kind of device.
};

/// One rank of `describe`: takes steps on the recipe's first samples, and on rank 0 prints one JSON object. Ranks time
/// their steps side by side, without averaging gradients, then all-reduces alone.
///
/// Returns the exit code. Collective: yes.
int run_describe(const DescribeRequest& request, const TrainerProcess& process);

}  // namespace lockstep
