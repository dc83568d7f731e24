// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/clock.h"

namespace lockstep {

struct WatchdogOptions {
  std::chrono::milliseconds limit{};       ///< A collective that has not ended then never does.
  std::chrono::milliseconds stop_limit{};  ///< The same once the process was asked to stop, from then on.
  std::function<bool()> is_stopping{};     ///< True once the process was asked to stop. May be empty.
  std::chrono::milliseconds look_every{1000};
};

/// Ends the process if one of its collectives does not end, whatever the collective library does.
///
/// A library has a time limit of its own, and its exception is the better end. This is for a library that waits without
/// a limit, in a call or in a wait. It needs nothing of the training thread, which stands still then.
///
/// A work that nobody holds any more has ended, or nobody waits for it. So the watchdog does not keep works, which hold
/// tensors, alive.
///
/// Threads: all calls may come from any thread. `late` is called in a thread of its own.
class CollectiveWatchdog {
 public:
  /// `late` gets what has not ended. It must not return.
  CollectiveWatchdog(WatchdogOptions options, std::function<void(const std::string&)> late);
  ~CollectiveWatchdog();
  CollectiveWatchdog(const CollectiveWatchdog&) = delete;
  CollectiveWatchdog& operator=(const CollectiveWatchdog&) = delete;

  /// Runs `call`, which begins a collective, and follows the work that it returns. `operation` must stay valid, as a
  /// literal does. `follows` is false for work on a
  /// device, which must not be asked while a graph is recorded.
  template <typename Call>
  c10::intrusive_ptr<c10d::Work> follow(const char* operation, bool follows, Call&& call) {
    const RunningCall running(calls_, operation);
    auto work = std::forward<Call>(call)();
    if (follows && work) add(operation, running.begun, work);
    return work;
  }

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;

  // A call that has not returned. Ranks wait for a collective from its call on, so the call is noted without a lock.
  struct Call {
    std::atomic<Clock::rep> begun = 0;  ///< 0 if this place is free.
    std::atomic<const char*> operation = nullptr;
  };
  using Calls = std::array<Call, 8>;  // More calls at once are not watched.

  struct RunningCall {
    RunningCall(Calls& calls, const char* operation);
    ~RunningCall();
    RunningCall(const RunningCall&) = delete;
    RunningCall& operator=(const RunningCall&) = delete;

    Clock::time_point begun;
    Call* call = nullptr;
  };

  struct Open {
    const char* operation = nullptr;
    Clock::time_point begun{};
    c10::weak_intrusive_ptr<c10d::Work> work;
  };

  void add(const char* operation, Clock::time_point begun, const Work& work);
  void run(const std::stop_token& stop);
  std::optional<std::pair<Clock::time_point, const char*>> find_oldest();
  std::optional<std::string> find_late(Clock::time_point now);

  const WatchdogOptions options_;
  const std::function<void(const std::string&)> late_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  Calls calls_{};
  std::vector<Open> open_;  ///< In the order in which their calls returned.
  std::optional<Clock::time_point> stopping_since_;
  std::jthread thread_;  ///< The last member, since it uses the others.
};

}  // namespace lockstep
