// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/monitor/node_history.h"
#include "lockstep/cluster/monitor/run_status.h"
#include "lockstep/cluster/monitor/training_history.h"
#include "lockstep/observe/growing_file.h"

namespace lockstep {

/// The folder of the run that `word` means: a run folder, or the name of one in `root`. Unlike run_job() it takes one
/// without a job too: whatever holds metrics.jsonl or telemetry.
///
/// Throws: Error(kUsage) naming the nearest run where there is none, and where a folder holds nothing of a run.
std::filesystem::path watched_run(const std::string& word, const std::filesystem::path& root);

/// The run in `root` that was submitted last or, without a job, wrote last.
///
/// Throws: Error(kUsage) where there is none.
std::filesystem::path latest_run(const std::filesystem::path& root);

/// A run folder that is looked at again and again.
class RunWatch {
 public:
  explicit RunWatch(std::filesystem::path run_dir);

  /// A claim: the run was submitted, so that a queue can tell of it.
  bool has_job() const;

  /// What there is now, in seconds since 1970. `queue` is absent where nobody could ask for it: then what the run
  /// itself writes decides whether it lives.
  ///
  /// Throws: Error(kIo) where one of its files cannot be read.
  RunStatus look(const std::optional<QueuedJobs>& queue, double now);

 private:
  struct Node {
    GrowingFile file;
    NodeHistory history{};
  };
  void read();
  /// The job and its state. A claim: it is in the queue.
  bool place_in_queue(RunStatus& status, const std::optional<QueuedJobs>& queue) const;
  bool all_have_ended() const;
  bool says_something(double now) const;

  std::filesystem::path run_dir_;
  std::map<std::string, Node> nodes_;  // By file name.
  GrowingFile metrics_;
  TrainingHistory training_;
};

}  // namespace lockstep
