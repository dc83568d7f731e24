// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>

#include "lockstep/device/device.h"

namespace lockstep {

/// Keeps the host at most 32 steps ahead of the device. A device queues about a thousand launches. Beyond that, each
/// further launch keeps a core busy until there is room. This waits earlier, and asleep.
class StepLead {
 public:
  /// `device` must outlive this object. On a CPU there is no lead.
  explicit StepLead(const RankDevice& device) : device_(device) {}

  /// Counts a step that was launched on the device. After every 16th, it waits until the device has done the step 32
  /// before it. If given, `look` is called now and then meanwhile. An exception from it ends the wait.
  /// Blocks: until then.
  void after_step(const std::function<void()>& look);

 private:
  const RankDevice& device_;
  int steps_ = 0;                            ///< Since the last mark.
  std::deque<std::function<bool()>> marks_;  ///< Oldest first.
};

}  // namespace lockstep
