// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cluster/job/queue.h"

namespace lockstep::cli {

/// Where `submit` puts this user's runs on this system.
std::filesystem::path runs_here(const Environment& env);

/// What Slurm's queue holds of this user's jobs. Runs can be shown where it does not answer, though not whether they
/// wait or run: then a warning says so.
std::optional<QueuedJobs> queue_or_nothing(const Context& context);

/// Throws: Error(kUsage) where a number of nodes is below 1.
void check_nodes(const std::vector<int>& nodes);

}  // namespace lockstep::cli
