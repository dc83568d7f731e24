// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/job/run_job.h"

namespace lockstep::cli {

/// Returns the folder in which `lockstep submit` makes this user's run folders on this cluster.
std::filesystem::path runs_here(const Environment& env);

/// Returns all folders with runs of this user: runs_root(), and all others to which runs were submitted.
RunPlaces run_places(const Environment& env);

/// Returns this user's jobs in Slurm's queue, as SlurmQueue::jobs() does. If Slurm does not answer, it prints a warning
/// and returns nothing. Runs can still be shown, but not whether they wait or run.
std::optional<QueuedJobs> queue_or_nothing(const Context& context, std::int64_t since);

/// Checks numbers of nodes. Throws: Error(kUsage) if one is below 1.
void check_nodes(const std::vector<int>& nodes);

}  // namespace lockstep::cli
