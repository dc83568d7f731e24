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

/// Returns the folder of the run that `word` means. It is a run folder, the name of one in `places`, or a job's id.
/// Unlike run_job() it also accepts a folder without a job that holds metrics.jsonl or telemetry.
///
/// Throws: Error(kUsage) naming the nearest run if there is none, and if a folder does not hold a run.
std::filesystem::path watched_run(const std::string& word, const RunPlaces& places);

/// Returns the run that was submitted last or, without a job, wrote last.
///
/// Throws: Error(kUsage) if there is none.
std::filesystem::path latest_run(const RunPlaces& places);

/// A run folder that is looked at again and again.
class RunWatch {
 public:
  explicit RunWatch(std::filesystem::path run_dir);

  /// True if the run was submitted, so that the queue may show it.
  bool has_job() const;

  /// Returns the present state. `now` is in seconds since 1970. `queue` is absent if Slurm could not be asked. The
  /// run's own files then decide whether it lives.
  ///
  /// Throws: Error(kIo) if one of its files cannot be read.
  RunStatus look(const std::optional<QueuedJobs>& queue, double now);

 private:
  struct Node {
    GrowingFile file;
    NodeHistory history{};
  };
  void read();
  /// Sets the job and its state. Returns true if it is in the queue.
  bool place_in_queue(RunStatus& status, const std::optional<QueuedJobs>& queue) const;
  bool all_have_ended() const;
  bool says_something(double now) const;

  std::filesystem::path run_dir_;
  std::map<std::string, Node> nodes_;  // By file name.
  GrowingFile metrics_;
  TrainingHistory training_;
};

}  // namespace lockstep
