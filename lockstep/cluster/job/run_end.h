// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/record/exit_record.h"

namespace lockstep {

/// The end of a run's last job.
struct RunEnd {
  /// "ended" (well), "failed", "stopped" (75: on request, with a snapshot), "cancelled", "timeout", "out of memory",
  /// "node lost", "preempted".
  std::string state{};
  int code = 0;  ///< The exit code of `follow`. It is the script's own, or else follows from Slurm's state.
};

/// Returns how the run ended, from its folder. Nothing if the folder does not say. A trial of a packed job has its own
/// end.
std::optional<RunEnd> run_end(const RunJob& run);

/// Returns run_end() if the folder alone shows that the job does not start again. Nothing if the job may be in the
/// queue: no script has recorded an end, or the last one was killed, or it ended to continue in another start.
std::optional<RunEnd> final_end(const RunJob& run);

/// Returns the rank that made the run's last job fail. Nothing if no rank failed, or if Slurm ended all ranks, since
/// their order then means nothing.
std::optional<FirstExit> rank_at_fault(const RunJob& run, const RunEnd& end);

/// Returns the time at which the run's state in the queue last changed for certain, in seconds since 1970. At that time
/// it was submitted, or one of its scripts ended. An answer of the queue from before that time must not be used.
std::int64_t last_news(const RunJob& run);

/// Asks Slurm how runs ended that are not in `queue` and whose folder does not say enough. A script that was killed
/// could not write anything, and a script that failed does not know why. Slurm is asked once for all these runs. The
/// answers are stored in their folders or, if a folder cannot be written, in RunJob::learned. If Slurm does not answer,
/// nothing is stored.
void learn_ends(std::span<RunJob> runs, const QueuedJobs& queue, const Environment& env);

/// A job that has ended, as Slurm reports it.
struct EndedJob {
  std::string state;  ///< "TIMEOUT"
  int code = 0;       ///< As a shell reports it.
};

/// Parses the output of `squeue --states=all --noheader -O "JobID:32,State:32,exit_code:32"`, and returns the jobs that
/// have ended.
std::map<std::string, EndedJob> parsed_ended_squeue(std::string_view text);

/// Parses the output of `sacct -X --noheader --parsable2 --format=JobIDRaw,State,ExitCode`, and returns the jobs that
/// have ended.
std::map<std::string, EndedJob> parsed_ended_sacct(std::string_view text);

}  // namespace lockstep
