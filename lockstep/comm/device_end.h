// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/comm/collective_maker.h"

namespace lockstep {

/// Calls `late` in a separate thread if the DeadLine object still lives after `limit`.
class TimeLimit {
 public:
  TimeLimit(std::chrono::milliseconds limit, std::function<void()> late);

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  ///< The last member, since it uses the others.
};

/// Ends collectives between devices in a thread after a failure. Meanwhile the caller continues, and destroys the
/// graphs that hold these collectives.
class DeviceEnd {
 public:
  /// Begins to end the collectives. If that takes longer than `limit`, `late` is called, which must not return.
  DeviceEnd(const CollectiveMaker& maker, c10::intrusive_ptr<c10d::Backend> backend, std::chrono::milliseconds limit,
            std::function<void()> late);
  /// Blocks: until the collectives have ended.
  ~DeviceEnd() = default;
  DeviceEnd(const DeviceEnd&) = delete;
  DeviceEnd& operator=(const DeviceEnd&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace lockstep
