// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/watched_wait.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "lockstep/base/clock.h"

namespace lockstep {

void watched_wait(const std::function<bool()>& is_done, const std::function<void()>& look,
                  std::chrono::microseconds awake) {
  using std::chrono::microseconds;
  constexpr auto kLongestSleep = microseconds(200);
  constexpr auto kBetweenLooks = microseconds(100'000);
  const auto start = Clock::now();
  auto last_look = start;
  auto sleep = microseconds(10);
  while (!is_done()) {
    const auto now = Clock::now();
    if (look && now - last_look >= kBetweenLooks) {
      look();
      last_look = now;
    }
    if (now - start < awake) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(sleep);
      sleep = std::min(2 * sleep, kLongestSleep);
    }
  }
}

}  // namespace lockstep
