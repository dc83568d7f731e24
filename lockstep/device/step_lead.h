// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>

#include "lockstep/device/device.h"

namespace lockstep {

/// Keeps the host at most 32 steps ahead of the device. A device takes about a thousand launches; then each further one
/// keeps a core busy until there is room. This waits asleep, and earlier.
class StepLead {
 public:
  /// `device` must outlive this object. On a CPU there is no lead.
  explicit StepLead(const RankDevice& device) : device_(device) {}

  /// Counts a step that was given to the device. If it is one of every 16, waits until the device has done the step 32
  /// before it. Calls `look`, if there is one, now and then meanwhile; an exception from it ends the wait.
  /// Blocks: until then.
  void after_step(const std::function<void()>& look);

 private:
  const RankDevice& device_;
  int steps_ = 0;                            ///< Since the last mark.
  std::deque<std::function<bool()>> marks_;  ///< Oldest first.
};

}  // namespace lockstep
