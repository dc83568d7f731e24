// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/watch/verdict.h"

namespace lockstep {

/// Finds the rank that slows the others down, although it goes on.
///
/// Each look compares one second of all ranks. A rank is behind in it if its training thread had no core for 40 % of
/// that second and three times as long as the median of the others. It is also behind if it spent 30 % more of it in
/// loading and forward than they did, and three times as much. Ranks wait for each other in backward, so that time
/// tells nothing. Who is behind in 3 of 4 of the last 30 looks is slow, until that is fewer than 2 of 5. So single
/// pauses count for nothing, however long.
///
/// Only pages of version 2 tell enough. A device that is slow by itself is not seen, since the host waits for it in
/// backward like all others.
///
/// Threads: one at a time.
class SlowRanks {
 public:
  /// Takes a look, about a second after the one before.
  void look(const std::vector<RankSight>& ranks, Clock::time_point now);

  /// The verdict of the last look. Nothing while no rank is slow.
  const std::optional<WatchVerdict>& verdict() const { return verdict_; }

 private:
  /// The looks at one rank.
  struct Looks {
    int rank = -1;
    pid_t pid = -1;
    double local_s = 0;  ///< In loading and forward, as of the last look.
    double wait_s = 0;   ///< For a core, as of the last look.
    double local = 0;    ///< Shares of the last second.
    double wait = 0;
    std::deque<bool> behind{};
    std::deque<bool> lacks_core{};
  };

  bool measure(const std::vector<RankSight>& ranks, double seconds);
  void judge(const std::vector<RankSight>& ranks);
  static std::string text(const RankSight& rank, const Looks& looks);

  std::vector<Looks> looks_{};
  std::optional<Clock::time_point> last_{};
  std::optional<WatchVerdict> verdict_{};
};

}  // namespace lockstep
