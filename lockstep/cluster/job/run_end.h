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

/// How a run's last job ended.
struct RunEnd {
  /// "ended" (well), "failed", "stopped" (75: on request, with a snapshot), "cancelled", "timeout", "out of memory",
  /// "node lost", "preempted".
  std::string state{};
  int code = 0;  ///< What `follow` ends with: the script's own, else what Slurm's state stands for.
};

/// Returns how the run ended, as its folder tells; nothing if it does not. A trial of a packed job has an end of its
/// own.
std::optional<RunEnd> run_end(const RunJob& run);

/// Returns the rank that ended the run's last job; nothing if none failed, or if Slurm ended them all: which of them
/// went first then says nothing.
std::optional<FirstExit> rank_at_fault(const RunJob& run, const RunEnd& end);

/// Returns when the run's place in the queue last changed for certain, in seconds since 1970: it was submitted, or a
/// script of it ended. A queue that was asked before then says nothing about it.
std::int64_t last_news(const RunJob& run);

/// Asks Slurm how those of `runs` ended that are not in `queue` and whose folder does not tell enough: a script that
/// was killed could write nothing, and one that failed does not know why. Slurm is asked once for all of them, and what
/// it says is kept in their folders or, if a folder cannot be written, in RunJob::learned. Where it does not answer,
/// nothing is kept.
void learn_ends(std::span<RunJob> runs, const QueuedJobs& queue, const Environment& env);

/// What Slurm says of a job that has ended.
struct EndedJob {
  std::string state;  ///< "TIMEOUT"
  int code = 0;       ///< As a shell has it.
};

/// Returns the ended jobs in what `squeue --states=all --noheader -O "JobID:32,State:32,exit_code:32"` prints.
std::map<std::string, EndedJob> parsed_ended_squeue(std::string_view text);

/// Returns the ended jobs in what `sacct -X --noheader --parsable2 --format=JobIDRaw,State,ExitCode` prints.
std::map<std::string, EndedJob> parsed_ended_sacct(std::string_view text);

}  // namespace lockstep
