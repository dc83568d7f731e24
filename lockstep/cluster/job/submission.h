// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/job/packed_sweep.h"

namespace lockstep {

/// The resources that a job requests on each node.
struct JobAsk {
  bool is_known = false;  ///< False of a job of an earlier version.
  int devices = 0;
  int cores_per_task = 0;  ///< 0 for Slurm's default.
  std::string memory{};    ///< As --mem takes it. Empty for Slurm's default.
  bool has_whole_nodes = false;
};

/// A run folder's record of its job, job.json.
struct JobRecord {
  std::string job;      ///< Slurm's number.
  std::string name;     ///< "mnist"
  std::string cluster;  ///< The profile's name.
  std::string command;  ///< As a shell would be given it.
  int nodes = 0;
  int tasks = 0;  ///< Of all nodes.
  bool is_recipe = false;
  std::int64_t time_s = 0;
  std::int64_t submitted = 0;  ///< Seconds since 1970.
  JobBilling billing{};
  JobAsk asked{};
  std::string packed_in{};  ///< The folder of the job that this trial shares with others.
  std::string step{};       ///< The name of this trial's step in that job. Trials that share a step have one name.
};

/// Thrown if the job is queued, or may be, although its submission has failed. Its run folder must stay, since the job
/// writes into it.
class MayBeQueued : public Error {
 public:
  using Error::Error;
};

/// Makes the run folder, writes job.sh into it, passes that script to sbatch, and writes the result to job.json.
///
/// Throws: Error(kEnvironment) with sbatch's own message if it refuses, or with advice if there is no sbatch. A folder
///         that was created here is then removed again; Error(kIo) if the folder cannot be created; MayBeQueued if
///         Slurm's answer was lost or is no number, or if job.json cannot be written.
///
/// If `after` is not empty, the job waits until the job `after` has ended, well or not.
JobRecord submit_job(const JobPlan& plan, const Environment& env, const std::string& after = {});

/// Submits a job that has several trials. Each trial's folder gets its own job.json.
JobRecord submit_packed(const PackedJob& job, const Environment& env, const std::string& after = {});

/// Returns the environment variables for sbatch. Variables of a surrounding job are removed, and so are those that
/// would override the script.
Environment environment_for_sbatch(const Environment& env);

/// Returns the record in a run folder's job.json, or nothing if the folder has none. If the run continued in another
/// job, it is the record of that job. For a trial it is the record of the job to which the trial belongs.
///
/// Throws: Error(kData) if job.json has another content.
std::optional<JobRecord> job_record(const std::filesystem::path& run_dir);

}  // namespace lockstep
