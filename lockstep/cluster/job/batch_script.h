// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// Returns the batch script of a job, for `sbatch`, by Lockstep or by hand.
///
/// The script requests the plan's nodes, loads modules, tries the program on one node, and starts `lockstep exec --
/// PROGRAM` as each task. It continues in another job if the program ended with 75 or, for a chain, if the time is up.
/// Source: docs/cluster/submit.md explains each part.
std::string batch_script(const JobPlan& plan);

/// Returns the path of "job.sh" in the run folder.
std::filesystem::path script_path(const JobPlan& plan);
/// Returns "logs/job.log" in the run folder. All tasks and the script write to it, over all restarts.
std::filesystem::path log_path(const JobPlan& plan);

}  // namespace lockstep
