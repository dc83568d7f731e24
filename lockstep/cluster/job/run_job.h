// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/job/submission.h"

namespace lockstep {

/// A run that was submitted.
struct RunJob {
  std::filesystem::path path;
  JobRecord record;
};

/// The run that `word` means: a run folder, or the name of one in `root`.
///
/// Throws: Error(kUsage) naming the nearest run where there is none, and where it has no job.
RunJob run_job(const std::string& word, const std::filesystem::path& root);

/// The folder that `word` means, whatever it holds: one by its path, the name of one in `root`, or a run_job()'s. It
/// has a name of its own, also where `word` is "." or ends with a slash.
///
/// Throws: Error(kUsage) naming the nearest run where there is none.
std::filesystem::path named_folder(const std::string& word, const std::filesystem::path& root);

/// The runs with a job in `root`, and those of sweeps one folder deeper, the latest submitted first. Empty where there
/// is no such folder.
std::vector<RunJob> run_jobs(const std::filesystem::path& root);

/// "running", "pending (Priority)", "finished" where the run has its result, else "ended".
std::string state_of(const RunJob& run, const QueuedJobs& queue);

/// Asks a run to stop, and lets it not go on in a next job: a recipe writes a snapshot first, a waiting job and a
/// program are cancelled.
///
/// Returns: what was done, for a person.
/// Throws: Error(kEnvironment) with scancel's message.
std::string stop_run(const RunJob& run, const QueuedJobs& queue, const Environment& env);

}  // namespace lockstep
