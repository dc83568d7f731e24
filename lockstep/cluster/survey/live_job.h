// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/setup/trainer_program.h"
#include "lockstep/cluster/survey/live_check.h"

namespace lockstep {

/// The result of a job whose tasks examined their node.
struct LiveReport {
  std::string profile;
  std::string job;
  std::filesystem::path log;
  std::vector<NodeView> views;  ///< By rank.
  std::vector<LiveDifference> differences;
};

/// Submits a two-minute job, as `submit` would with this profile. The tasks of the job examine their node, and their
/// reports are compared with the profile. `cluster` is a profile's name, a file or "auto".
///
/// Blocks:  until the tasks have reported or the job has left the queue.
/// Throws:  as plan_submission() and submit_job() do.
LiveReport checked_live(const std::string& cluster, const LockstepProgram& lockstep, const Environment& env,
                        const Log& log);

/// Writes a task's view of its node into the run's folder.
///
/// Throws: Error(kEnvironment) if this process is not in such a job.
void write_view(const NodeView& view, const Environment& env);

}  // namespace lockstep
