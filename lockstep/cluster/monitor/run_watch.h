// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/monitor/node_history.h"
#include "lockstep/cluster/monitor/run_status.h"
#include "lockstep/cluster/monitor/training_history.h"
#include "lockstep/observe/growing_file.h"

namespace lockstep {

/// Returns the folder of the run that `word` means: a run folder, the name of one in `places`, or the number of its
/// job. Unlike run_job() it takes one without a job too: whatever holds metrics.jsonl or telemetry.
///
/// Throws: Error(kUsage) naming the nearest run where there is none, and where a folder holds nothing of a run.
std::filesystem::path watched_run(const std::string& word, const RunPlaces& places);

/// Returns the run that was submitted last or, without a job, wrote last.
///
/// Throws: Error(kUsage) where there is none.
std::filesystem::path latest_run(const RunPlaces& places);

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
