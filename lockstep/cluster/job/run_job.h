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
  std::optional<JobExit> learned{};  ///< Slurm's record of its end, if the folder could not store it because its disk
                                     ///< is full.
};

/// The folders of a user's runs.
struct RunPlaces {
  std::filesystem::path root{};                    ///< The folder that `submit` puts them into.
  std::vector<std::filesystem::path> elsewhere{};  ///< Run folders outside of it, as remembered_runs() knows them.
};

/// Returns the run that `word` names. `word` is a run folder, the name of a run in `places`, or a job's id.
///
/// Throws: Error(kUsage) naming the nearest run if there is no such run, and if the run has no job.
RunJob run_job(const std::string& word, const RunPlaces& places);

/// Returns the folder of a run without a job, which `train` has made, by its path or its name in the root.
std::optional<std::filesystem::path> local_run(const std::string& word, const RunPlaces& places);

/// Returns the run that was submitted last.
///
/// Throws: Error(kUsage) if there is none.
RunJob latest_job(const RunPlaces& places);

/// Returns the folder that `word` names, whatever it contains. `word` is a path, the name of a folder in the root, or a
/// job's id. The returned path ends in the folder's name, also if `word` is "." or ends with a slash.
///
/// Throws: Error(kUsage) naming the nearest run if there is no such folder.
std::filesystem::path named_folder(const std::string& word, const RunPlaces& places);

/// Returns all runs that have a job, the latest submitted first. Runs of sweeps are one folder deeper. Empty if there
/// is no such folder.
std::vector<RunJob> run_jobs(const RunPlaces& places);

/// Returns "running", "pending (Priority)", "finished" if the run has its result, or else run_end()'s state. "unknown"
/// if nothing says how it ended.
std::string state_of(const RunJob& run, const QueuedJobs& queue);

/// Returns the state if Slurm does not answer: "finished", or final_end()'s. "unknown" if the job may be in the queue.
std::string state_without_queue(const RunJob& run);

/// Asks a run to stop, and prevents another job of it. A recipe writes a snapshot first. A waiting job and a program
/// are cancelled.
///
/// Slurm can signal only a whole step. So a trial that shares its step with other trials is asked through its folder.
///
/// Returns a message on what was done.
/// Throws: Error(kEnvironment) with scancel's or squeue's message, or naming the trials that would end too.
std::string stop_run(const RunJob& run, const QueuedJobs& queue, const Environment& env);

}  // namespace lockstep
