// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/watch/page_reader.h"
#include "lockstep/watch/rank_watch.h"

namespace lockstep {

/// Watches one task of a job from its parent, `lockstep exec`. The parents of the tasks exchange their reports through
/// files.
///
/// If a task has not changed for 5 s, its parent writes `RUN/watch/rank-NNNN.json`, and again every 5 s until the task
/// goes on. So a healthy job writes nothing. When rank 0's own task stands still too, its parent reads these files,
/// decides which rank holds up the others, and reports it. It also answers `lockstep why`. For that it touches
/// `RUN/watch/asked`. The other parents look for this file every 2 s, or less often if they are more than 64. Then each
/// writes the state of its task once.
///
/// A failure here must not end the task, so a file that cannot be written or read is skipped.
///
/// Threads: one at a time.
class TaskWatch {
 public:
  /// `log` must outlive this object. Throws: Error(kEnvironment) if there is no memory for the page.
  TaskWatch(const Placement& at, const std::string& node, std::filesystem::path run_dir, const Log& log);

  /// Returns the task's variables with its page among them.
  Environment with_page(const Environment& env) const;

  /// Looks at the task once. Call it about once a second.
  void look(pid_t task);

 private:
  using Time = std::chrono::system_clock::time_point;

  RankSight look_at_own(pid_t task);
  void tell_of(const RankSight& own, Time now);
  bool is_asked(Time now);
  void look_for_requests(Time now);
  void judge(const RankSight& own, Time now);
  std::vector<RankSight> told(const RankSight& own, Time since) const;
  void answer(const std::vector<RankSight>& ranks);
  std::filesystem::path folder() const { return run_dir_ / "watch"; }

  const int rank_;
  const int world_;
  const std::filesystem::path run_dir_;
  const Log& log_;
  SharedPage page_;
  RankWatch watch_;
  VerdictNews news_{};
  std::optional<Time> told_at_{};
  std::optional<std::filesystem::file_time_type> seen_asked_{};
  Time next_check_{};
  std::optional<Time> asked_{};  ///< When `lockstep why` was asked and not yet answered. Of rank 0.
};

}  // namespace lockstep
