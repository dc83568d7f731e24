// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/job/submission.h"
#include "lockstep/cluster/record/exit_record.h"

namespace lockstep {

/// A run that was submitted.
struct RunJob {
  std::filesystem::path path;
  JobRecord record;
  std::optional<JobExit> learned{};  ///< What Slurm said of its end, if the folder could not keep it: its disk is full.
};

/// The places where a user's runs lie.
struct RunPlaces {
  std::filesystem::path root{};                    ///< The folder that `submit` puts them into.
  std::vector<std::filesystem::path> elsewhere{};  ///< Run folders outside of it, as remembered_runs() knows them.
};

/// Returns the run that `word` means: a run folder, the name of one in `places`, or the number of its job.
///
/// Throws: Error(kUsage) naming the nearest run if there is none, and if it has no job.
RunJob run_job(const std::string& word, const RunPlaces& places);

/// Returns the folder of a run that no job has: one that `train` has made, by its path or its name in the root.
std::optional<std::filesystem::path> local_run(const std::string& word, const RunPlaces& places);

/// Returns the run that was submitted last.
///
/// Throws: Error(kUsage) if there is none.
RunJob latest_job(const RunPlaces& places);

/// Returns the folder that `word` means, whatever it holds: one by its path, the name of one in the root, or a
/// run_job()'s. It has a name of its own, also if `word` is "." or ends with a slash.
///
/// Throws: Error(kUsage) naming the nearest run if there is none.
std::filesystem::path named_folder(const std::string& word, const RunPlaces& places);

/// Returns the runs with a job, and those of sweeps one folder deeper, the latest submitted first. Empty if there is no
/// such folder.
std::vector<RunJob> run_jobs(const RunPlaces& places);

/// Returns "running", "pending (Priority)", "finished" if the run has its result, else how it ended as run_end() has
/// it; "ended" if nothing tells.
std::string state_of(const RunJob& run, const QueuedJobs& queue);

/// Asks a run to stop, and lets it not go on in a next job: a recipe writes a snapshot first, a waiting job and a
/// program are cancelled.
///
/// Returns: what was done, for a person.
/// Throws: Error(kEnvironment) with scancel's message.
std::string stop_run(const RunJob& run, const QueuedJobs& queue, const Environment& env);

}  // namespace lockstep
