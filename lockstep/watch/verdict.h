// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Who holds up a job. The verdict follows from one look at all ranks, by these rules:
///
/// 1. A rank whose process is stopped, by SIGSTOP or by a debugger, holds up the others. If all ranks are stopped,
///    somebody has suspended the job, and no rank is at fault. While one is stopped, no other rank is blamed.
/// 2. The rank that has begun the fewest collectives holds up those that wait in a later one. That rank is late in its
///    phase.
/// 3. Ranks in the same collective that differ in its operation or size have lost each other: one has left a collective
///    out, or made one more.
/// 4. If all ranks are in the same collective, nobody is behind. The network, or what Slurm did to a node, is.
///
/// A rank that goes on, but slows the others down, takes a history: slow_rank.h.
///
/// A rank is only blamed once it has not changed for as long as its phase may take (RankSight::limit_s).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/watch/page_reader.h"

namespace lockstep {

/// One rank, as its parent sees it.
struct RankSight {
  int rank = 0;
  std::string host{};
  pid_t pid = -1;
  char state = '?';  ///< As /proc/PID/stat has it. R computes, S sleeps, D waits for a disk, T is stopped, t is traced.
  std::optional<PageSight> page{};  ///< Absent for a program that writes none.
  double age_s = 0;                 ///< Seconds without a change of the page, or of `state` without a page.
  double limit_s = 600;             ///< Seconds that the rank's phase may take.
  double core_wait_s = -1;          ///< Seconds in which a thread of it was ready and had no core, or -1.

  bool is_stopped() const { return state == 'T' || state == 't'; }
};

enum class VerdictKind { kStopped, kLate, kApart, kAllWait, kSlow };

/// "stopped", "late", "apart", "all_wait" or "slow".
std::string_view name_of(VerdictKind kind);

struct WatchVerdict {
  VerdictKind kind = VerdictKind::kLate;
  std::vector<int> ranks{};  ///< The ranks at fault. All, if nobody is behind.
  std::string text{};        ///< A sentence for people, without a full stop.

  /// True for the same fault of the same ranks. Times in the texts may differ.
  bool is_same(const WatchVerdict& other) const { return kind == other.kind && ranks == other.ranks; }
};

/// Returns who holds up the job, or nothing while all is well. `stopped_for_s` is how long a process may be stopped.
std::optional<WatchVerdict> verdict_on(const std::vector<RankSight>& ranks, double stopped_for_s = 10);

/// Returns the ranks that are in another collective than the others, with what both do. Nothing if all are in the same,
/// or if a rank notes none. It is for ranks that have ended by a collective's error, and waits for nothing.
std::optional<WatchVerdict> ranks_apart(const std::vector<RankSight>& ranks);

/// "rank 2 (process 4711 on n3)"
std::string name_of(const RankSight& rank);

/// "forward of step 12, sample 768 and the 63 with it"
std::string describe(const PageSight& page);

/// "rank 2 (process 4711 on n3): loading step 12 for 34 s (samples from 768 on), newest collective 57, all_reduce
/// Float of 1 024 elements"
std::string describe(const RankSight& rank);

}  // namespace lockstep
