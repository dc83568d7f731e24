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

/// Returns the folder of the run that `word` names. `word` is a run folder, the name of a run in `places`, or a job's
/// id. Unlike run_job(), this also accepts a folder without a job, if it has metrics.jsonl or telemetry.
///
/// Throws: Error(kUsage) naming the nearest run if there is no such run, and if the folder is not a run folder.
std::filesystem::path watched_run(const std::string& word, const RunPlaces& places);

/// Returns the newest run: the one that was submitted last or, for runs without a job, the one that wrote last.
///
/// Throws: Error(kUsage) if there is none.
std::filesystem::path latest_run(const RunPlaces& places);

/// A run folder that is read again and again, each time only its new lines.
class RunWatch {
 public:
  explicit RunWatch(std::filesystem::path run_dir);

  /// True if the run was submitted to Slurm, so that it may be in the queue.
  bool has_job() const;

  /// Returns the present state. `now` is in seconds since 1970. `queue` is absent if Slurm could not be asked. Then the
  /// run's own files decide whether the run lives.
  ///
  /// Throws: Error(kIo) if one of its files cannot be read.
  RunStatus look(const std::optional<QueuedJobs>& queue, double now);

 private:
  struct Node {
    GrowingFile file;
    NodeHistory history{};
  };
  void read();
  /// Sets the job and its state in the status. Returns true if the job is in the queue.
  bool place_in_queue(RunStatus& status, const std::optional<QueuedJobs>& queue) const;
  bool all_have_ended() const;
  bool says_something(double now) const;

  std::filesystem::path run_dir_;
  std::map<std::string, Node> nodes_;  // By file name.
  GrowingFile metrics_;
  TrainingHistory training_;
};

}  // namespace lockstep
