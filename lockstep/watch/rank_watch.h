// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/watch/slow_rank.h"
#include "lockstep/watch/verdict.h"

namespace lockstep {

/// Keeps the longest times of each phase, to compute how long a phase may take before its rank is called late.
///
/// The limit is 5 times the 99th percentile of all times of that phase so far, and at least 10 s. A phase that was left
/// fewer than 20 times may take ten minutes, since a first step loads libraries and a first validation reads files.
class PhaseHistory {
 public:
  void add_long(Phase phase, double seconds);
  /// Returns the limit for a phase. `left` is how often any rank has left this phase. Most times were short and were
  /// not added here.
  double limit_s(Phase phase, std::uint64_t left) const;

 private:
  static constexpr std::size_t kMost = 1000;            ///< Of each phase. The longest are kept.
  std::array<std::vector<double>, kPhases> longest_{};  ///< In rising order.
};

/// One rank to watch, as its parent knows it now.
struct WatchedRank {
  int rank = 0;
  pid_t pid = -1;
  std::optional<PageSight> page{};
  char state = '?';
  std::map<pid_t, double> core_waits{};  ///< As core_waits().
};

/// Returns the rank as it is now. `page` may be null.
WatchedRank watched_rank(int rank, pid_t pid, const PageLayout* page);

/// Returns for each thread of a process the seconds in which it was ready to run and had no core. Empty if the kernel
/// does not say. Source: proc(5), schedstat.
std::map<pid_t, double> core_waits(pid_t pid);

/// The state of a process as /proc/PID/stat has it. '?' if there is no such process.
char process_state(pid_t pid);

/// Reports each verdict once, and reports once when the ranks go on.
class VerdictNews {
 public:
  /// Returns a message if this verdict is new, or nothing.
  std::optional<std::string> of(const std::optional<WatchVerdict>& verdict);

 private:
  std::optional<WatchVerdict> told_{};
};

/// Watches ranks over time. It measures how long each has not changed, and says once who holds up the job.
///
/// Times are this process's own. If this process or all ranks were suspended, all times begin again at zero.
///
/// Threads: one at a time.
class RankWatch {
 public:
  /// `sees_all` is false if other nodes watch other ranks of the job. A stopped rank here may then be one of many.
  explicit RankWatch(std::string host = {}, bool sees_all = true) : host_(std::move(host)), sees_all_(sees_all) {}

  /// Looks at the ranks that live. Call it about every `kLookEvery`.
  void look(const std::vector<WatchedRank>& ranks, Clock::time_point now);

  /// The ranks as of the last look.
  const std::vector<RankSight>& ranks() const { return sights_; }
  /// The verdict of the last look.
  const std::optional<WatchVerdict>& verdict() const { return verdict_; }

  /// Returns the message of VerdictNews::of() for the last look.
  std::optional<std::string> news() { return news_.of(verdict_); }

  static constexpr std::chrono::milliseconds kLookEvery{1000};
  static constexpr std::chrono::milliseconds kGap{5000};  ///< A longer time without a look means a suspended job.

 private:
  struct Followed {
    int rank = -1;
    pid_t pid = -1;
    std::uint64_t changes = 0;
    Phase phase = Phase::kStarting;
    char state = '?';
    Clock::time_point since{};
    std::map<pid_t, double> waits{};  ///< Of the last look.
    double core_wait_s = -1;          ///< The sum over all looks of the longest wait of a thread.
  };

  Followed& followed(const WatchedRank& rank, Clock::time_point now);
  void follow(const WatchedRank& rank, Clock::time_point now);
  static void add_wait(Followed& own, const WatchedRank& rank);
  std::uint64_t times_left(Phase phase) const;

  std::string host_;
  bool sees_all_;
  std::vector<Followed> followed_{};
  std::vector<RankSight> sights_{};
  PhaseHistory history_{};
  SlowRanks slow_{};
  std::optional<Clock::time_point> last_look_{};
  std::optional<WatchVerdict> verdict_{};
  VerdictNews news_{};
};

}  // namespace lockstep
