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
  int code = 0;     ///< srun's.
  double seconds = 0;
  int tasks = 1;
  std::vector<std::string> nodes{};  ///< Where it ran.
  std::vector<std::string> lost{};   ///< Those of them that Slurm has as down, drained or silent now.
};

/// The decision whether a step is started again, on which nodes, and why.
struct StepRestart {
  bool is_again = false;
  std::vector<std::string> nodes{};  ///< Where it runs then.
  std::string reason{};              ///< One line for a person; empty if the step ended well.
};

/// Decides whether a program's step is started again, at most `most` times in a job.
///
/// Lost nodes are left out. If none is lost, the node of the rank that failed first is left out, unless it is the only
/// one. If two starts in a row failed within a minute, there is no third start, unless a node was lost or a rank got
/// SIGKILL. `records` holds how ranks ended. `before` is the start before this one, or null.
StepRestart decide_restart(const EndedStep& ended, const ExitRecords& records, const EndedStep* before, int most);

/// Makes the same decision from the records in the run folder. It appends this end to restarts.jsonl there, for the
/// next decision.
///
/// Throws: Error(kIo) if the line cannot be written.
StepRestart decide_and_keep_restart(const EndedStep& ended, const std::filesystem::path& run_dir, int most);

}  // namespace lockstep
