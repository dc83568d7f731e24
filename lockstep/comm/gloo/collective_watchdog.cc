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

// Each collective of a step comes through begin() and called(), so neither allocates memory, nor drops a tensor.
std::uint64_t CollectiveWatchdog::begin(std::string_view operation) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [](const Open& each) { return each.is_called && each.work.expired(); });
  open_.push_back({.id = ++begun_, .operation = operation, .begun = now});
  return begun_;
}

void CollectiveWatchdog::called(std::uint64_t id, const Work& work) {
  const std::lock_guard lock(mutex_);
  const auto own = std::ranges::find(open_, id, &Open::id);
  if (!work) {
    open_.erase(own);
    return;
  }
  own->work = c10::weak_intrusive_ptr<c10d::Work>(work);
  own->is_called = true;
}

std::optional<std::string> CollectiveWatchdog::find_late(Clock::time_point now) {
  // Dropped without the mutex, since the end of a work's tensors may run code that waits for another thread.
  std::vector<Work> works;
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [&](const Open& each) {
    if (!each.is_called) return false;
    works.push_back(each.work.lock());
    return !works.back() || works.back()->isCompleted();
  });
  if (!stopping_since_ && options_.is_stopping && options_.is_stopping()) stopping_since_ = now;
  if (open_.empty()) return std::nullopt;
  const auto& oldest = open_.front();
  const auto age = now - oldest.begun;
  const bool stops = stopping_since_ && std::min(age, now - *stopping_since_) >= options_.stop_limit;
  if (age < options_.limit && !stops) return std::nullopt;
  return std::string(oldest.operation) + " that began " + fixed(std::chrono::duration<double>(age).count(), 0) +
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
