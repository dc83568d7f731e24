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

std::uint64_t CollectiveWatchdog::begin(std::string_view operation) {
  EndedWork ended;
  const std::lock_guard lock(mutex_);
  take_ended(ended);
  open_.push_back({.id = ++begun_, .operation = operation, .begun = Clock::now()});
  return begun_;
}

void CollectiveWatchdog::called(std::uint64_t id, Work work) {
  const std::lock_guard lock(mutex_);
  const auto own = std::ranges::find(open_, id, &Open::id);
  work ? void(own->work = std::move(work)) : void(open_.erase(own));
}

// Works hold their tensors, so none may be kept for longer than needed. The caller drops them without the mutex, since
// a tensor's end may run code that waits for another thread.
void CollectiveWatchdog::take_ended(EndedWork& ended) {
  std::size_t count = 0;
  std::erase_if(open_, [&](Open& each) {
    if (count == ended.size() || !each.work || !each.work->isCompleted()) return false;
    ended.at(count++) = std::move(each.work);
    return true;
  });
}

std::optional<std::string> CollectiveWatchdog::find_late(Clock::time_point now) {
  EndedWork ended;
  const std::lock_guard lock(mutex_);
  take_ended(ended);
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
