// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

#include "lockstep/base/clock.h"
#include "lockstep/comm/group.h"

namespace lockstep {

/// The signals that a rank sends to the other ranks during a pass over batches.
struct PassSignals {
  bool stop = false;     ///< It was asked to stop.
  bool failure = false;  ///< It has left the pass with an exception.
};

/// Checks at which all ranks agree whether to continue a pass over batches without backward().
///
/// The first check is after the first batch. The interval between checks is the number of batches that take the slowest
/// rank about half a second, but at least 1 and at most 16. So a stop takes effect within one or two slow batches, and
/// fast batches are hardly delayed.
class PassChecks {
 public:
  /// `group` must outlive this object. Tests pass a clock of their own as `now`.
  explicit PassChecks(Group& group, std::function<Clock::time_point()> now = Clock::now);

  /// Counts a batch. Returns true if a check is due after it, on every rank alike.
  bool end_batch();
  /// Makes the check, and returns the signals of all ranks. A rank that fails makes it at once. The others reach it
  /// with their next check, and then all leave the pass. A rank at the end makes a last check, for a failure elsewhere.
  /// Collective: yes. Blocks: until every rank is there, and until the device is done.
  PassSignals check(const PassSignals& own);

  /// Returns the number of batches until the next check, if one batch takes the slowest rank this long.
  static std::int64_t batches_between(double seconds_per_batch);

 private:
  Group& group_;
  std::function<Clock::time_point()> now_;
  Clock::time_point last_check_;
  std::int64_t batches_ = 0;  ///< Since the last check.
  std::int64_t interval_ = 1;
};

/// True if `failure` says that a peer was lost, so that ranks can agree on nothing any more.
bool is_peer_lost(const std::exception_ptr& failure);

/// Throws on every rank if `own` is not null on any rank. A rank with an exception of its own throws that. The others
/// throw the first such rank's error, with the rank's number. Collective: yes.
void rethrow_on_every_rank(Group& group, const std::exception_ptr& own);

}  // namespace lockstep
