// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/record/launcher_failure.h"

namespace lockstep {

/// How the program of one rank ended, as its parent `lockstep exec` saw it.
struct RankExit {
  std::string job{};  ///< Slurm's number.
  int start = 0;      ///< How often the job had been requeued before.
  int rank = 0;
  std::string node{};
  int code = 0;                               ///< As a shell has it: 128 + n for signal n.
  int signal = 0;                             ///< 0 if it ended by itself.
  double time = 0;                            ///< Seconds since 1970.
  std::vector<std::string> last{};            ///< The last lines that it wrote to standard error, if it failed.
  std::optional<LauncherFailure> launched{};  ///< If it is a launcher: which of its own ranks failed first.

  /// True if the rank failed by itself: it did not end well, stop on request, or only notice a dead peer.
  bool is_cause() const;
};

/// How a job ended: as its script saw it or, with `state`, as Slurm has it.
struct JobExit {
  std::string job{};
  int code = 0;
  std::string state{};  ///< Slurm's word, "TIMEOUT"; empty in the script's own line.
};

/// The exit records of a run, in the order in which they were written. docs/run-folder.md describes the files.
struct ExitRecords {
  std::vector<RankExit> ranks{};
  std::vector<JobExit> jobs{};

  /// Returns what is known of a job's end, the latest last; null if nothing is.
  const JobExit* end_of_job(const std::string& job) const;
};

/// The rank that ended a job.
struct FirstExit {
  RankExit rank{};
  int failed = 1;                   ///< Ranks that did not end well, this one included.
  int known = 1;                    ///< Ranks that left a record.
  std::optional<double> ahead_s{};  ///< How long before the next rank that failed; nothing if no other did.
};

/// Appends one line to exits-NODE.jsonl in the run folder. Ranks of a node may do so at once.
///
/// Throws: Error(kIo) if the line cannot be written.
void append_exit(const std::filesystem::path& run_dir, const RankExit& exit);

/// Appends what Slurm says of a job's end to exits.jsonl in the run folder, where the script has left its own line.
///
/// Throws: Error(kIo) if the line cannot be written.
void append_exit(const std::filesystem::path& run_dir, const JobExit& exit);

/// Returns what lies in exits.jsonl and exits-NODE.jsonl. A line that holds something else is left out.
ExitRecords read_exits(const std::filesystem::path& run_dir);

/// Returns the rank that failed first in the last start of `job`; nothing if none failed. A rank that only noticed a
/// dead peer (code 7) comes first only if there is no other.
std::optional<FirstExit> first_exit(const ExitRecords& records, const std::string& job);

/// Returns "rank 3 on n2 ended first, by SIGKILL (137; often memory), 0.4 s before the others", without a full stop;
/// of a launcher also the rank that it names.
std::string to_text(const FirstExit& first);

/// Returns "SIGKILL (137; often memory)" for a code of 128 + n, "code 5" for another.
std::string exit_code_text(int code);

}  // namespace lockstep
