// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/stop_request.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/launch/stop_signals.h"

namespace lockstep {

void StopRequest::ask(const std::string& reason) {
  if (reason_.empty()) reason_ = reason;
}

void StopRequest::ask_if_due() {
  if (is_asked()) return;
  if (StopSignals::arrived()) return ask("signal");
  if (watched_) ask(watched_());
}

bool StopRequest::agree_now(DistributedDataParallel& parallel, Group& group) {
  if (!parallel.agree_now(Signal::kStop, is_asked())) return false;
  take_reason(group);
  return true;
}

void StopRequest::take_reason(Group& group) {
  const auto asking = group.all_gather(is_asked() ? 1 : 0);
  const auto first = std::find(asking.begin(), asking.end(), 1);
  LOCKSTEP_ASSERT(first != asking.end());
  stopped_by_ = group.broadcast_text(reason_, static_cast<int>(first - asking.begin()));
}

}  // namespace lockstep
