// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/launch/local/launcher.h"

namespace lockstep {

/// Decides whether a rank that died is started again.
class Healing {
 public:
  explicit Healing(const HealingLimits& limits) : limits_(limits) {}

  /// True if a process that ended like this may do better when it is started again. `code` is as a shell reports it.
  static bool is_curable(int code);

  /// Returns why a rank that died now is not started again. Nothing if it is, which then counts.
  std::optional<std::string> refusal(int rank, Clock::time_point now);

  int count() const { return count_; }

 private:
  struct Death {
    int rank = 0;
    Clock::time_point at;
  };

  HealingLimits limits_;
  int count_ = 0;
  std::deque<Death> deaths_;  ///< Within the window.
};

}  // namespace lockstep
