// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"

namespace lockstep {

/// The variable of a process that is started in a dead rank's place. Its value is the generation of the run in which
/// this process connects to the others.
inline constexpr const char* kGenerationVariable = "LOCKSTEP_GENERATION";

/// Limits on how often ranks are started again.
struct HealingLimits {
  int most = 100;                             ///< Healings of one run.
  std::chrono::milliseconds window{120'000};  ///< A rank that dies twice within this time is not started again. 0 for
                                              ///< no such limit.
};

/// Returns how a process ended, such as "ended by signal 9 (Killed)". `signal` is 0 if it ended by itself.
std::string how_it_ended(int code, int signal);

/// Decides whether a rank that died is started again.
class Healing {
 public:
  explicit Healing(const HealingLimits& limits) : limits_(limits) {}

  /// True if a process that ended like this may succeed when it is started again. `code` is as a shell reports it.
  static bool is_curable(int code);

  /// Returns why a rank that died now is not started again. Returns nothing if it is started again, and counts this.
  std::optional<std::string> refusal(int rank, Clock::time_point now);

  int count() const { return count_; }

 private:
  struct Death {
    int rank = 0;
    Clock::time_point at;
  };

  HealingLimits limits_;
  int count_ = 0;
  std::deque<Death> deaths_;  ///< The deaths within `window`.
};

}  // namespace lockstep
