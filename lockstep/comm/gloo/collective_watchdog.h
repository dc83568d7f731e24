// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
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

  /// Runs `call`, which begins a collective, and follows the work that it returns. `follows` is false for work on a
  /// device, which must not be asked while a graph is recorded.
  template <typename Call>
  c10::intrusive_ptr<c10d::Work> follow(std::string_view operation, bool follows, Call&& call) {
    const auto id = begin(operation);
    try {
      auto work = std::forward<Call>(call)();
      called(id, follows ? work : nullptr);
      return work;
    } catch (...) {
      called(id, nullptr);
      throw;
    }
  }

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;

  struct Open {
    std::uint64_t id = 0;
    std::string_view operation{};
    Clock::time_point begun{};
    bool is_called = false;  ///< False while its call runs. `work` is null until then.
    c10::weak_intrusive_ptr<c10d::Work> work{Work()};
  };

  std::uint64_t begin(std::string_view operation);
  // `work` is null if the collective is not followed after its call.
  void called(std::uint64_t id, const Work& work);
  void run(const std::stop_token& stop);
  std::optional<std::string> find_late(Clock::time_point now);

  const WatchdogOptions options_;
  const std::function<void(const std::string&)> late_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<Open> open_;  ///< In the order in which they began.
  std::uint64_t begun_ = 0;
  std::optional<Clock::time_point> stopping_since_;
  std::jthread thread_;  ///< The last member, since it uses the others.
};

}  // namespace lockstep
