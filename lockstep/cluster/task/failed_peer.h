// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/log.h"
#include "lockstep/cluster/record/exit_record.h"
#include "lockstep/launch/attended.h"

namespace lockstep {

/// Ends a recipe's rank that does not notice that another rank of its step has failed. Its parent, `lockstep exec`,
/// uses it.
///
/// Ranks notice a dead peer by its sockets, and end with code 7. A rank whose device waits for a device of the same
/// node has no socket to it, and Gloo may forget a message whose connection broke. Such a rank would wait for its time
/// limit. So the parent of the rank that failed writes
/// `RUN/watch/failed`, and the others look for this file every 2 s, or less often if they are more than 64. A rank that
/// is still there 10 s later, and writes nothing in that time, is killed. A rank that still saves goes on.
///
/// The training may be a descendant of the task. It alone is killed first, so that its parent can save the state that
/// the parent holds. The task is killed after further 10 s without a write.
///
/// A failure here must not end the task, so it is ignored.
///
/// Threads: one at a time.
class FailedPeer {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// `own` names the step and this rank. Its code is not used. `log` must outlive this object.
  FailedPeer(RankExit own, int world, std::filesystem::path run_dir, const Log& log);

  /// Tells the other ranks that this rank has failed. Does nothing if it ended well or on request. Call it once nobody
  /// will start the rank again.
  void tell(const RankExit& end) const;

  /// Looks whether another rank has failed, and kills `training` after the time above, or `task` if `training` is no
  /// descendant of it. Call it about once a second.
  void look(pid_t task, pid_t training, Time now = std::chrono::system_clock::now());

  /// Returns `end`, or the end of a rank that lost its peer if look() has killed it.
  ProgramEnd told_end(ProgramEnd end) const;

 private:
  std::filesystem::path file() const { return run_dir_ / "watch" / "failed"; }
  std::optional<RankExit> failed() const;

  const RankExit own_;
  const int world_;
  const std::filesystem::path run_dir_;
  const Log& log_;
  Time next_look_{};
  std::optional<RankExit> peer_{};  ///< The rank that has failed.
  Time quiet_since_{};
  std::uint64_t written_ = 0;  ///< Bytes by the task and its processes, at the last look.
  bool has_killed_ = false;
};

}  // namespace lockstep
