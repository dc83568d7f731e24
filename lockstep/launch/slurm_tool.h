// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/process.h"

namespace lockstep {

/// Returns `env` without the variables with which a user filters and formats the output of Slurm's tools, such as
/// SQUEUE_STATES, SINFO_PARTITION and SLURM_TIME_FORMAT. They apply to each question that does not set the same flag.
/// Variables such as SQUEUE_ALL stay, since they only add hidden partitions to the answer.
///
/// Source: squeue(1), sinfo(1), sacct(1), scancel(1) and scontrol(1), "ENVIRONMENT VARIABLES".
Environment environment_for_slurm_tools(const Environment& env);

/// Runs one of Slurm's tools, such as {"squeue", "--me"}, as run_process() does, but with
/// environment_for_slurm_tools(env). So its output has the form that the caller asks for, and leaves nothing out.
///
/// Throws: Error(kEnvironment) with the system's reason if no process can be started.
ProcessResult run_slurm_tool(const std::vector<std::string>& command, const Environment& env);

/// True if squeue has failed because Slurm does not know the job any more. A busy Slurm gives other reasons.
bool is_unknown_job(const ProcessResult& asked);

}  // namespace lockstep
