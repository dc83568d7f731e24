// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"

namespace lockstep {

/// One job in Slurm's queue.
struct QueuedJob {
  std::string state;   ///< "PENDING", "RUNNING"…, as job_state() returns it.
  std::string reason;  ///< Why it waits, such as "Priority" or "Resources". "None" if it runs.
  std::string start;   ///< When it started or is expected to, such as "2026-11-21T13:31:30". "N/A" if unknown.
};

using QueuedJobs = std::map<std::string, QueuedJob, std::less<>>;

/// Slurm's queue of jobs. Slurm's controller is asked at most once every `kQueueAge` by all commands of this user
/// together. Its answer is stored in cache_folder(). An answer in which a job is COMPLETING is not used again, since
/// that job has ended a moment later.
class SlurmQueue {
 public:
  static constexpr std::chrono::seconds kQueueAge{30};

  explicit SlurmQueue(const Environment& env);

  /// Returns this user's jobs by id. Slurm's answer is at most kQueueAge old, and from after the time `since`, in
  /// seconds since 1970. So a job that was submitted at that time is in the answer, unless it has ended.
  ///
  /// Throws: Error(kEnvironment) with Slurm's message if Slurm does not answer, and no answer is stored that is young
  ///         enough.
  QueuedJobs jobs(std::int64_t since = 0) const;
  /// Marks the stored answer as outdated. Call it after this process has changed the queue.
  void forget() const;

 private:
  Environment env_;
  std::filesystem::path kept_;
};

/// Slurm's queue for a command that asks again and again. A busy Slurm does not always answer. Then the last answer is
/// kept, and a warning is printed the first time.
class QueuePoll {
 public:
  QueuePoll(const Environment& env, Log log) : queue_(env), log_(std::move(log)) {}

  /// Asks as SlurmQueue::jobs() does. Returns true if Slurm has answered.
  ///
  /// Throws: as SlurmQueue::jobs() if Slurm has never answered.
  bool ask(std::int64_t since = 0);
  /// Returns Slurm's last answer. Empty before the first.
  const QueuedJobs& jobs() const { return jobs_; }
  void forget() const { queue_.forget(); }

 private:
  SlurmQueue queue_;
  Log log_;
  QueuedJobs jobs_;
  bool has_answered_ = false;
  bool has_warned_ = false;
};

/// A node, as Slurm reports it.
struct SlurmNode {
  int cores = 0;  ///< As Slurm counts them for --cpus-per-task.
  int devices = 0;
};

/// Asks Slurm for the nodes with devices in `partition`, or in the default one if that is empty. If nodes differ,
/// returns the kind with the fewest cores per device. Returns nothing if no node has devices, or if Slurm does not
/// answer.
std::optional<SlurmNode> node_with_devices(const std::string& partition, const Environment& env);

/// Returns the end of a hint that describes such a node, and says how to request all of it. Empty if there is no such
/// node.
std::string nodes_have(const std::string& partition, const Environment& env);

/// Finds such a node in the output of `sinfo --noheader --format=%P|%c|%G`.
std::optional<SlurmNode> parsed_nodes(std::string_view text, const std::string& partition);

/// Returns the state of a job for `shown`, which squeue prints for `%T`: "RUNNING" for "SIGNALING" and "RESIZING" too,
/// otherwise `shown`. Slurm shows these two while it delivers a signal to a running job, or changes its nodes.
/// Source: https://slurm.schedmd.com/squeue.html, "JOB STATE CODES".
std::string job_state(const std::string& shown);

/// Parses the output of `squeue --noheader --format=%i|%T|%r|%S`.
QueuedJobs parsed_queue(std::string_view text);

}  // namespace lockstep
