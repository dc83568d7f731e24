// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>

#include "lockstep/device/backend.h"

namespace lockstep {

/// Names a range of this thread's time, from construction to destruction, in LibTorch's profiler and in that of the
/// device's maker.
class [[nodiscard]] RangeMark {
 public:
  /// `name` lives as long.
  RangeMark(const DeviceBackend& backend, const char* name)
      : backend_(backend), recorded_(at::RecordScope::USER_SCOPE) {
    backend_.push_range(name);
    if (recorded_.isActive()) recorded_.before(name);
  }
  ~RangeMark() { backend_.pop_range(); }
  RangeMark(const RangeMark&) = delete;
  RangeMark& operator=(const RangeMark&) = delete;

 private:
  const DeviceBackend& backend_;
  at::RecordFunction recorded_;
};

}  // namespace lockstep
