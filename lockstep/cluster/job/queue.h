// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep {

/// What Slurm says of one job that is in its queue.
struct QueuedJob {
  std::string state;   ///< "PENDING", "RUNNING"…
  std::string reason;  ///< Why it waits: "Priority", "Resources"…; "None" where it runs.
  std::string start;   ///< When it started or is expected to: "2026-11-21T13:31:30"; "N/A" where nobody knows.
};

using QueuedJobs = std::map<std::string, QueuedJob, std::less<>>;

/// Slurm's queue, which is asked at most every `kQueueAge` by all commands of this user together: the answer is kept in
/// cache_folder().
class SlurmQueue {
 public:
  static constexpr std::chrono::seconds kQueueAge{30};

  explicit SlurmQueue(const Environment& env);

  /// This user's jobs by their numbers, no older than kQueueAge and younger than `since`, in seconds since 1970: a job
  /// that was submitted at that time is in the answer, if it has not ended.
  ///
  /// Throws: Error(kEnvironment) with Slurm's message where it does not answer and no fresh answer is kept.
  QueuedJobs jobs(std::int64_t since = 0) const;
  /// Makes the kept answer stale: this process has just changed the queue.
  void forget() const;

 private:
  Environment env_;
  std::filesystem::path kept_;
};

/// What Slurm says of a node.
struct SlurmNode {
  int cores = 0;  ///< As Slurm counts them for --cpus-per-task.
  int devices = 0;
};

/// Asks Slurm for the nodes with devices in `partition`, or in the default one if that is empty. Returns the kind that
/// has the fewest cores for each device; nothing if no node has devices or Slurm does not answer.
std::optional<SlurmNode> node_with_devices(const std::string& partition, const Environment& env);

/// Returns what such a node has, and how all of it is asked for, as the end of a hint; empty if there is none.
std::string nodes_have(const std::string& partition, const Environment& env);

/// The same of what `sinfo --noheader --format=%P|%c|%G` prints.
std::optional<SlurmNode> parsed_nodes(std::string_view text, const std::string& partition);

/// The jobs in what `squeue --noheader --format=%i|%T|%r|%S` prints.
QueuedJobs parsed_queue(std::string_view text);

}  // namespace lockstep
