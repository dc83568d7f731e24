// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/job/script_text.h"

namespace lockstep {

// The common parts of batch scripts, packed jobs and interactive sessions. Each function adds its paragraph, or nothing
// if the plan does not need it.

/// Returns the job's requests as "--flag" or "--flag=value", for sbatch and salloc. The plan's further flags are not
/// included.
std::vector<std::string> allocation_flags(const JobPlan& plan);

/// Adds the beginning of a batch script: the allocation_flags() as #SBATCH lines, the #SBATCH lines that only a batch
/// job has (output, warning before the limit, requeueing), and a line for the log.
void add_head(ScriptText& out, const JobPlan& plan);

/// Adds modules, staged files, variables, the container's command line, and the commands that each task runs first.
/// `on_exit` has the commands that the script already runs at its end.
void add_surroundings(ScriptText& out, const JobPlan& plan, const std::string& on_exit = {});

/// Returns the commands that a batch script runs at its end. The shell function keep_end, which add_head() defines,
/// records the script's status.
inline constexpr const char* kKeepEnd = "keep_end $?; ";

/// Adds lines that start the program once on one node. If the program does not exist or does not start, the script ends
/// with 4. In a job with devices, each node is checked in the same step by `lockstep doctor --node`. If a node is
/// faulty, the script ends with 4.
void add_smoke_test(ScriptText& out, const JobPlan& plan);

/// Returns the words between `srun` and the program. They are the container, `lockstep exec` with these options, and
/// the commands that each task runs first.
std::string wrapped(const JobPlan& plan, const std::string& exec_options);
/// Returns the same words without `lockstep exec`.
std::string wrapped_alone(const JobPlan& plan);

/// Returns the program's arguments, with a space before each.
std::string arguments_of(const JobPlan& plan);

/// Returns " --export=ALL" if srun would otherwise pass no variables to the tasks.
std::string step_flags(const JobPlan& plan);

/// Returns srun for one short task on each node. This step may run at the same time as the ranks' step, and takes no
/// core, memory or device from it.
std::string step_on_each_node(const JobPlan& plan);

/// True if the job is warned before its time is up, so that a program without snapshots continues.
bool is_warned_program(const JobPlan& plan);

}  // namespace lockstep
