// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/record/exit_record.h"

namespace lockstep {

/// A task whose parent `lockstep exec` was lost, mostly with its node.
struct LostTask {
  int rank = 0;
  std::string node{};
};

/// Records in the run folder that these tasks were lost, and ends the job's step if its script starts it again. srun by
/// itself would wait for the lost tasks until Slurm finds their node down, which takes `SlurmdTimeout`.
///
/// Call it on the node of the job's script, once all other tasks have ended. `own` is the record of this task.
void end_step_without(const std::vector<LostTask>& lost, const RankExit& own, const std::filesystem::path& run_dir,
                      const Environment& env, const Log& log);

/// Returns the process of the srun that has started this process's step, if it runs on this machine. `env` is the
/// environment of this process, `root` stands for "/" in tests.
std::optional<pid_t> srun_of_step(const Environment& env, const std::filesystem::path& root = "/");

}  // namespace lockstep
