// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/job_clock.h"
#include "lockstep/observe/request_watch.h"

namespace lockstep {

/// Tells a training to stop, at the end of its job or by a request in its run folder. Rank 0 has one.
class RunControl {
 public:
  /// `run_dir` is empty for a training without a folder, which gets no requests. A job's end in the past was another
  /// job's, and is ignored.
  RunControl(const std::filesystem::path& run_dir, const Environment& env);

  /// Returns why the training must stop now, "request" or "job_end". Empty if it may continue. `longest_step_s` is
  /// empty before the first step of this start. That step is always taken, however late it is, since a job that only
  /// starts and stops would be requeued for ever.
  std::string reason_to_stop(std::optional<double> longest_step_s) const;

  /// True if somebody has asked for a snapshot, and no save has begun since.
  bool wants_save() const { return requests_ && requests_->wants_save(); }
  void begin_save(std::int64_t step);
  void written(const SnapshotWritten& snapshot);

 private:
  JobClock clock_;
  std::optional<RequestWatch> requests_;
  Clock::time_point save_began_{};
  double longest_save_s_ = 0;  ///< From its begin until it is whole on disk.
};

}  // namespace lockstep
