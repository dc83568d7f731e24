// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/job/script_text.h"

namespace lockstep {

// The parts that batch scripts, packed jobs and interactive sessions have in common. Each adds its paragraph, or
// nothing where the plan has no need of it.

/// What the job asks for, each "--flag" or "--flag=value", as sbatch and salloc take them; the plan's further flags are
/// not among them.
std::vector<std::string> allocation_flags(const JobPlan& plan);

/// How a batch script begins: all of that as #SBATCH lines, with what only a batch job has (where its output goes, the
/// warning before the limit, whether it may be requeued), and a line for the log.
void add_head(ScriptText& out, const JobPlan& plan);

/// Modules, staged files, variables, the container's command line, and what each task runs first. `on_exit` is what the
/// script already does at its end.
void add_surroundings(ScriptText& out, const JobPlan& plan, const std::string& on_exit = {});

/// What a batch script does at its end: keep_end, which add_head() defines, keeps its status.
inline constexpr const char* kKeepEnd = "keep_end $?; ";

/// Starts the program once on one node: one that is not there, or does not start, ends the script with 4. A job with
/// devices looks at each of its nodes in the same step, by `lockstep doctor --node`, and ends with 4 for a sick one.
void add_smoke_test(ScriptText& out, const JobPlan& plan);

/// What stands between `srun` and the program: the container, `lockstep exec` with these options of its own, the lines
/// that each task runs first.
std::string wrapped(const JobPlan& plan, const std::string& exec_options);
/// The same without `lockstep exec`.
std::string wrapped_alone(const JobPlan& plan);

/// The program's arguments, with a space before each.
std::string arguments_of(const JobPlan& plan);

/// " --export=ALL" where srun would hand on nothing by itself.
std::string step_flags(const JobPlan& plan);

/// srun for one short task on each node, beside the ranks' step or not: it takes no core, memory or device from it.
std::string step_on_each_node(const JobPlan& plan);

/// A claim: the job is warned before its time is up, so that a program without snapshots of its own goes on.
bool is_warned_program(const JobPlan& plan);

/// The shell function `next_job`, called where the run is to go on: nobody has stopped it, its chain has a link left,
/// and its last starts came to something. `link` is how many jobs the run has taken, this one included; `snapshots` the
/// folders of a recipe's snapshots, for a shell. Adds nothing for a run that does not go on.
void add_next_job(ScriptText& out, const JobPlan& plan, const std::string& snapshots);

}  // namespace lockstep
