// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/record/launcher_failure.h"

namespace lockstep {

/// The end of one rank's program, as its parent `lockstep exec` saw it.
struct RankExit {
  std::string job{};  ///< Slurm's number.
  int start = 0;      ///< Number of times that the job had been requeued before.
  int restart = 0;    ///< How often its step had been started again within this start of the job.
  int rank = 0;
  std::string node{};
  int code = 0;                               ///< As a shell reports it, 128 + n for signal n.
  int signal = 0;                             ///< 0 if it ended by itself.
  bool is_lost = false;                       ///< Its parent was lost too, mostly with the node. Rank 0's wrote this.
  double time = 0;                            ///< Seconds since 1970.
  std::vector<std::string> last{};            ///< The last lines that it wrote to standard error, if it failed.
  std::string doing{};                        ///< "forward of step 12", as its page says. Empty without a page.
  std::optional<int> told_by{};               ///< The rank whose error this rank threw, as its page says.
  std::optional<LauncherFailure> launched{};  ///< If the program is a launcher, its own rank that failed first.

  /// True if the rank itself failed. False if it ended well, stopped on request, only noticed a dead peer, or was
  /// told of another rank's error.
  bool is_cause() const;
};

/// The end of a job, as its script saw it or, with `state`, as Slurm reports it.
struct JobExit {
  std::string job{};
  int code = 0;
  std::string state{};  ///< Slurm's word, such as "TIMEOUT". Empty in the script's own line.
};

/// All exit records of a run, in the order in which they were written. docs/formats/run-folder.md describes the files.
struct ExitRecords {
  std::vector<RankExit> ranks{};
  std::vector<JobExit> jobs{};

  /// Returns what is known about a job's end. If the job has several records, the latest counts. Null if it has none.
  const JobExit* end_of_job(const std::string& job) const;
};

/// The rank that ended a job.
struct FirstExit {
  RankExit rank{};
  int failed = 1;                   ///< Ranks that did not end well, this one included.
  int known = 1;                    ///< Ranks that left a record.
  std::optional<double> ahead_s{};  ///< How long it ended before the next rank that failed. Nothing if no other did.
};

/// Appends one line to exits-NODE.jsonl in the run folder. Several ranks of a node may call this at the same time.
///
/// Throws: Error(kIo) if the line cannot be written.
void append_exit(const std::filesystem::path& run_dir, const RankExit& exit);

/// Appends what Slurm reports about a job's end to exits.jsonl in the run folder, if the script has written its own
/// line.
///
/// Throws: Error(kIo) if the line cannot be written.
void append_exit(const std::filesystem::path& run_dir, const JobExit& exit);

/// Reads exits.jsonl and exits-NODE.jsonl in the run folder. Lines that are not exit records are left out.
ExitRecords read_exits(const std::filesystem::path& run_dir);

/// Returns the rank that failed first in the last start of `job`. Nothing if no rank failed. A rank that failed
/// because of another one is returned only if no other rank failed.
std::optional<FirstExit> first_exit(const ExitRecords& records, const std::string& job);

/// Formats "rank 3 on n2 was lost with its parent process, mostly with the node" or "rank 3 on n2 ended first, by
/// SIGKILL (137; often memory), in forward of step 12, 0.4 s before the others", without a full stop. For a launcher it
/// also gives the rank that the launcher names.
std::string to_text(const FirstExit& first);

/// Returns "SIGKILL (137; often memory)" for a code of 128 + n, "code 5" for another.
std::string exit_code_text(int code);

}  // namespace lockstep
