// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/task/task_reports.h"
#include "lockstep/launch/inspect/inspection.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/observe/watch_journal.h"
#include "lockstep/observe/watch_parent.h"
#include "lockstep/watch/page_reader.h"
#include "lockstep/watch/rank_watch.h"

namespace lockstep {

/// Watches one task of a job from its parent, `lockstep exec`. The parents of the tasks exchange their reports through
/// files.
///
/// If a task has not changed for 5 s, its parent looks at the task's process from outside and writes a report,
/// `RUN/watch/rank-NNNN.json`. It writes one again every 5 s until the task goes on, or less often if there are more
/// than 1000 tasks. So a healthy job writes nothing. When rank 0's own task stands still too, its parent reads these
/// files, decides which rank holds up the others, and reports that. It also answers `lockstep why`. For that it touches
/// `RUN/watch/asked`. The other parents look for this file every 2 s, or less often if they are more than 64. Then each
/// writes a report once.
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

  /// Returns what the task does, or did when it ended, such as "forward of step 12". Empty if it notes nothing.
  std::string doing() const;

  /// Returns the rank whose error the task threw. Nothing if the error was its own, or none.
  std::optional<int> told_by() const;

  /// Returns the process that writes the task's page, which may be a child of the task. Returns `task` if none does.
  pid_t training_process(pid_t task) const;

  /// Looks at the task once. Call it about once a second.
  void look(pid_t task);

 private:
  using Time = std::chrono::system_clock::time_point;

  RankSight look_at_own(pid_t task);
  void tell_of(const RankSight& own, Time now);
  bool is_asked(Time now);
  void look_for_requests(Time now, pid_t task);
  void begin_to_look(pid_t task);
  bool take_view();
  WatchNews with_views(WatchNews news) const;
  void judge(const RankSight& own, Time now);
  std::vector<RankSight> told(const RankSight& own, Time since);
  void answer(const std::vector<RankSight>& ranks);

  const int rank_;
  const int world_;
  const std::filesystem::path run_dir_;
  const Log& log_;
  SharedPage page_;
  RankWatch watch_;
  TaskReports reports_;
  std::optional<WatchParent> parent_{};  ///< Of rank 0.
  VerdictNews news_{};
  std::optional<Time> told_at_{};
  std::optional<std::filesystem::file_time_type> seen_asked_{};
  Time next_check_{};
  Time next_judgement_{};
  std::optional<Inspection> inspection_{};
  nlohmann::json view_ = nullptr;   ///< What was seen of the task. Null before it is looked at, and while it goes on.
  nlohmann::json views_ = nullptr;  ///< Of the ranks that told() returned last.
  bool must_tell_ = false;          ///< Somebody asked, and the look that was begun for it has not ended.
  std::optional<Time> asked_{};     ///< When `lockstep why` was asked and not yet answered. Of rank 0.
};

}  // namespace lockstep
