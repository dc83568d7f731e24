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

/// Where `submit` puts this user's runs on this system.
std::filesystem::path runs_here(const Environment& env);

/// Returns the places where this user's runs lie: there, and wherever else they were submitted to.
RunPlaces run_places(const Environment& env);

/// Returns this user's jobs in Slurm's queue, as SlurmQueue::jobs() does. Runs can be shown if it does not answer,
/// though not whether they wait or run: then a warning says so.
std::optional<QueuedJobs> queue_or_nothing(const Context& context, std::int64_t since);

/// Throws: Error(kUsage) where a number of nodes is below 1.
void check_nodes(const std::vector<int>& nodes);

}  // namespace lockstep::cli
