// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/collective_watchdog.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep {

CollectiveWatchdog::CollectiveWatchdog(WatchdogOptions options, std::function<void(const std::string&)> late)
    : options_(std::move(options)),
      late_(std::move(late)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

CollectiveWatchdog::~CollectiveWatchdog() {
  thread_.request_stop();
  wake_.notify_all();
}

CollectiveWatchdog::RunningCall::RunningCall(Calls& calls, const char* operation) : begun(Clock::now()) {
  for (auto& each : calls) {
    Clock::rep free = 0;
    if (!each.begun.compare_exchange_strong(free, begun.time_since_epoch().count())) continue;
    each.operation.store(operation, std::memory_order_release);
    call = &each;
    return;
  }
}

CollectiveWatchdog::RunningCall::~RunningCall() {
  if (call == nullptr) return;
  call->operation.store(nullptr, std::memory_order_relaxed);
  call->begun.store(0, std::memory_order_release);
}

// The collective runs meanwhile, so this costs the training no time.
void CollectiveWatchdog::add(const char* operation, Clock::time_point begun, const Work& work) {
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [](const Open& each) { return each.work.expired(); });
  open_.push_back({operation, begun, c10::weak_intrusive_ptr<c10d::Work>(work)});
}

std::optional<std::pair<Clock::time_point, const char*>> CollectiveWatchdog::find_oldest() {
  std::optional<std::pair<Clock::time_point, const char*>> oldest;
  const auto take = [&](Clock::time_point begun, const char* operation) {
    if (!oldest || begun < oldest->first) oldest.emplace(begun, operation);
  };
  for (const auto& each : calls_) {
    const auto begun = each.begun.load();
    const auto* const operation = each.operation.load();
    if (begun != 0 && operation != nullptr) take(Clock::time_point(Clock::duration(begun)), operation);
  }
  // Dropped without the mutex, since the end of a work's tensors may run code that waits for another thread.
  std::vector<Work> works;
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [&](const Open& each) {
    works.push_back(each.work.lock());
    return !works.back() || works.back()->isCompleted();
  });
  for (const auto& each : open_) take(each.begun, each.operation);
  return oldest;
}

std::optional<std::string> CollectiveWatchdog::find_late(Clock::time_point now) {
  const auto oldest = find_oldest();
  if (!stopping_since_ && options_.is_stopping && options_.is_stopping()) stopping_since_ = now;
  if (!oldest) return std::nullopt;
  const auto age = now - oldest->first;
  const bool stops = stopping_since_ && std::min(age, now - *stopping_since_) >= options_.stop_limit;
  if (age < options_.limit && !stops) return std::nullopt;
  return std::string(oldest->second) + " that began " + fixed(std::chrono::duration<double>(age).count(), 0) +
         " s ago has not ended" + (stops ? ", and the process was asked to stop" : "");
}

void CollectiveWatchdog::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (const auto what = find_late(Clock::now())) return late_(*what);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, options_.look_every, [] { return false; });
  }
}

}  // namespace lockstep
