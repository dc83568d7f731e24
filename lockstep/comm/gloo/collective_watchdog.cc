// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/collective_watchdog.h"

#include <algorithm>
#include <iterator>
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

c10::intrusive_ptr<c10d::Work> CollectiveWatchdog::follow(std::string_view operation, bool follows,
                                                          const std::function<c10::intrusive_ptr<c10d::Work>()>& call) {
  std::uint64_t id = 0;
  {
    std::vector<Open> ended;
    const std::lock_guard lock(mutex_);
    ended = take_ended();
    id = ++begun_;
    open_.push_back({.id = id, .operation = operation, .begun = Clock::now()});
  }
  const auto settle = [&](c10::intrusive_ptr<c10d::Work> work) {
    const std::lock_guard lock(mutex_);
    const auto own = std::ranges::find(open_, id, &Open::id);
    work ? void(own->work = std::move(work)) : void(open_.erase(own));
  };
  try {
    auto work = call();
    settle(follows ? work : nullptr);
    return work;
  } catch (...) {
    settle(nullptr);
    throw;
  }
}

// Works hold their tensors, so none may be kept for longer than needed. The caller drops them without the mutex, since
// a tensor's end may run code that waits for another thread.
std::vector<CollectiveWatchdog::Open> CollectiveWatchdog::take_ended() {
  const auto has_ended = [](const Open& each) { return each.work && each.work->isCompleted(); };
  const auto rest = std::stable_partition(open_.begin(), open_.end(), has_ended);
  std::vector<Open> ended(std::make_move_iterator(open_.begin()), std::make_move_iterator(rest));
  open_.erase(open_.begin(), rest);
  return ended;
}

std::optional<std::string> CollectiveWatchdog::find_late(Clock::time_point now) {
  std::vector<Open> ended;
  const std::lock_guard lock(mutex_);
  ended = take_ended();
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
