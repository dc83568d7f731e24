// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cluster/record/exit_record.h"

namespace lockstep {

/// The end of one start of a job's step, as the job's script saw it.
struct EndedStep {
  std::string job{};
  int start = 0;    ///< How often the job had been requeued before.
  int restart = 0;  ///< How often the step had been started again in this job before.
  int code = 0;     ///< Exit code of srun.
  double seconds = 0;
  int tasks = 1;
  std::vector<std::string> nodes{};   ///< The nodes on which the step ran.
  std::vector<std::string> lost{};    ///< Those of `nodes` that are out of service now, says Slurm.
  std::vector<std::string> spares{};  ///< Other nodes of the job that are up.
  int wanted = 0;                     ///< Nodes that a step should have. 0 for as many as are left.
  bool is_recipe = false;
  bool must_have_all = false;  ///< The step cannot run on fewer nodes than `wanted`.
};

/// The decision whether a step is started again, on which nodes, and why.
struct StepRestart {
  bool is_again = false;
  std::vector<std::string> nodes{};  ///< Where it runs then.
  std::string reason{};              ///< One line for a person; empty if the step ended well.
};

/// Decides whether a step is started again, at most `most` times in a job.
///
/// Lost nodes are left out, and spare nodes take their places. If none is lost, the node of the rank that failed first
/// is left out, unless it is the only one. If two starts each failed within a minute with the same
/// code, there is no third start, unless a node was lost or the step was killed. After an error in a recipe or its data
/// (codes 2, 3 and 5) there is no other start. `records` holds how ranks ended. `before` is the start before this one,
/// or null.
StepRestart decide_restart(const EndedStep& told, const ExitRecords& records, const EndedStep* before, int most);

/// Makes the same decision from the records in the run folder. It appends this end to restarts.jsonl there, for the
/// next decision.
///
/// Throws: Error(kIo) if the line cannot be written.
StepRestart decide_and_keep_restart(const EndedStep& ended, const std::filesystem::path& run_dir, int most);

}  // namespace lockstep
