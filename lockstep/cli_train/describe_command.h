// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {

/// The command line of `lockstep-train describe`, which measures what `lockstep plan` needs to know of a training.
struct DescribeRequest {
  TrainRequest train;
  std::vector<std::int64_t> batches;  ///< Batches of one rank to time. By default the recipe's.
  bool counts_only = false;           ///< Runs two samples and times nothing, for another kind of device.
};

/// Runs one rank of `describe`. It makes steps on the recipe's first samples, and rank 0 prints one JSON object. First
/// all ranks time their steps at the same time, without averaging gradients. Then they time all-reduces alone.
///
/// Returns the exit code. Collective: yes.
int run_describe(const DescribeRequest& request, const TrainerProcess& process);

}  // namespace lockstep
