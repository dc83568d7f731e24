// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/watch/verdict.h"

namespace lockstep {

/// Finds a rank that goes on, but slows the others down.
///
/// Each look compares one second of all ranks. A rank is behind in it if one of its threads had no core for 40 % of
/// that second and three times as long as the median of the others. It is also behind if it spent 30 % more of it in
/// loading and forward than they did, and three times as much. Ranks wait for each other in backward, so time in
/// backward is not compared. A rank is slow if it was behind in 3 of 4 of the last 30 looks. It is slow until it was
/// behind in fewer than 2 of 5. So a single pause does not make a rank slow, however long it is.
///
/// Only pages of version 2 have these numbers. A slow device is not found, since its host waits for it in backward, as
/// the hosts of the other ranks do.
///
/// Threads: one at a time.
class SlowRanks {
 public:
  /// Takes a look, about a second after the one before.
  void look(const std::vector<RankSight>& ranks, Clock::time_point now);

  /// Returns the verdict of the last look. Returns nothing while no rank is slow.
  const std::optional<WatchVerdict>& verdict() const { return verdict_; }

 private:
  /// The results of the looks at one rank.
  struct Looks {
    int rank = -1;
    pid_t pid = -1;
    double local_s = 0;  ///< Seconds in loading and forward up to the last look.
    double wait_s = 0;   ///< Seconds without a core up to the last look.
    double local = 0;    ///< Share of the last second in loading and forward.
    double wait = 0;     ///< Share of the last second without a core.
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
