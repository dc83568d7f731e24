// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pass_checks.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/device/device_failure.h"

namespace lockstep {
namespace {

constexpr double kSecondsBetweenChecks = 0.5;
constexpr std::int64_t kMostBatches = 16;

// A rank sends its time and its signals as one number: the signals are the lowest bits.
constexpr std::int64_t kStop = 1;
constexpr std::int64_t kFailure = 2;
constexpr std::int64_t kTimeUnit = 4;

}  // namespace

PassChecks::PassChecks(Group& group, std::function<Clock::time_point()> now)
    : group_(group), now_(std::move(now)), last_check_(now_()) {}

bool PassChecks::end_batch() { return ++batches_ >= interval_; }

PassSignals PassChecks::check(const PassSignals& own) {
  // The device may not have finished its batches yet. Without waiting for it, every batch would seem fast. A failed
  // device might never finish, so then nobody waits.
  if (!own.failure && !group_.device().is_cpu()) group_.await_device();
  const auto batches = std::max<std::int64_t>(1, batches_);
  const auto nanoseconds = std::llround(seconds_between(last_check_, now_()) * 1e9) / batches;
  const auto all = group_.all_gather(nanoseconds * kTimeUnit + (own.stop ? kStop : 0) + (own.failure ? kFailure : 0));
  PassSignals any;
  for (const auto each : all) {
    any.stop |= (each & kStop) != 0;
    any.failure |= (each & kFailure) != 0;
  }
  const auto slowest = *std::ranges::max_element(all) / kTimeUnit;
  interval_ = batches_between(static_cast<double>(slowest) / 1e9);
  batches_ = 0;
  last_check_ = now_();
  return any;
}

std::int64_t PassChecks::batches_between(double seconds_per_batch) {
  if (seconds_per_batch * static_cast<double>(kMostBatches) <= kSecondsBetweenChecks) return kMostBatches;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kSecondsBetweenChecks / seconds_per_batch));
}

bool is_peer_lost(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kPeer;
  } catch (...) {
    return false;
  }
}

void rethrow_on_every_rank(Group& group, const std::exception_ptr& own) {
  try {
    on_every_rank(group, [&] {
      if (own) naming_device_failures(group.device(), [&] { std::rethrow_exception(own); });
    });
  } catch (...) {
    // The rank that failed throws its own exception. The other ranks have only the exception's text.
    if (own) std::rethrow_exception(own);
    throw;
  }
}

}  // namespace lockstep
