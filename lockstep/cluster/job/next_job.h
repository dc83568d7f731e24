// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/job/script_text.h"

namespace lockstep {

// How a job continues after exit code 75. The training saved a snapshot and ended with 75, since it was asked to stop
// or its time was up (kExitStopped in base/error.h). The batch script then calls its function `next_job`, which puts
// the same job into the queue again, or submits the next job of a chain.

/// Adds the shell function `next_job`, which is called when the run should continue. It checks that nobody has stopped
/// the run, that its chain is not at its end, and that its last starts made progress. `link` is the number of jobs that
/// the run has had, including this one. `snapshots` are the folders of a recipe's snapshots, for a shell. Adds nothing
/// for a run that does not continue.
void add_next_job(ScriptText& out, const JobPlan& plan, const std::string& snapshots);

/// Adds the end of a batch script: if the step ended with 75, `next_job` is called. The script exits with the step's
/// code.
void add_end_with_next_job(ScriptText& out, const JobPlan& plan);

}  // namespace lockstep
