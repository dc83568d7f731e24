// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// The batch script of a job: what `sbatch` takes, by our hand or by a person's.
///
/// It asks for the plan's nodes, loads modules, tries the program on one node, starts `lockstep exec -- PROGRAM` as
/// each task, and goes on in a next job where the program ended with 75 or, for a chain, where the time is up. Source:
/// docs/cluster/submit.md explains each part.
std::string batch_script(const JobPlan& plan);

/// "job.sh" in the run folder.
std::filesystem::path script_path(const JobPlan& plan);
/// "logs/job.log" in the run folder: what all tasks and the script write, over all restarts.
std::filesystem::path log_path(const JobPlan& plan);

}  // namespace lockstep
