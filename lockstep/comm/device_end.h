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

/// Calls `late` in a separate thread if the object still lives after `limit`.
class TimeLimit {
 public:
  TimeLimit(std::chrono::milliseconds limit, std::function<void()> late);

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  ///< The last member, since it uses the others.
};

/// Ends collectives between devices after a failure, while its caller continues and drops the graphs that hold them.
class DeviceEnd {
 public:
  /// Begins to end them. `late` is called if that takes longer than `limit`. It must not return.
  DeviceEnd(const CollectiveMaker& maker, c10::intrusive_ptr<c10d::Backend> backend, std::chrono::milliseconds limit,
            std::function<void()> late);
  /// Blocks: until it is done.
  ~DeviceEnd() = default;
  DeviceEnd(const DeviceEnd&) = delete;
  DeviceEnd& operator=(const DeviceEnd&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace lockstep
