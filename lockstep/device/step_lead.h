// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>

#include "lockstep/device/device.h"

namespace lockstep {

/// Keeps the host at most 32 steps ahead of the device. A device queues about a thousand launches. If its queue is
/// full, each launch keeps a core busy until there is room. This object waits earlier, and sleeps meanwhile.
class StepLead {
 public:
  /// `device` must outlive this object. On a CPU it does nothing.
  explicit StepLead(const RankDevice& device) : device_(device) {}

  /// Counts a step that was launched on the device. After every 16th, it waits until the device has done the step 32
  /// before it. If given, `look` is called now and then meanwhile. An exception from it ends the wait.
  /// Blocks: until the device has done that step.
  void after_step(const std::function<void()>& look);

 private:
  const RankDevice& device_;
  int steps_ = 0;                            ///< Since the last mark.
  std::deque<std::function<bool()>> marks_;  ///< Oldest first.
};

}  // namespace lockstep
