// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/device_end.h"

#include <utility>

// Why a thread. A recorded graph that holds a collective keeps its communicator alive: from 2.26 on ncclCommAbort frees
// the kernels that wait on the device, and then itself waits until each such graph is destroyed, without a limit. The
// graph is destroyed by the exception that the caller throws next. So one waits for the other in the same thread.
// A lost device may also hold up the graph's end, and then nobody is left to say so: the time limit is a thread, too.
// Source: commDestroySync() in NCCL's src/init.cc, which waits for localPersistentRefs.

namespace lockstep {

TimeLimit::TimeLimit(std::chrono::milliseconds limit, std::function<void()> late)
    : thread_([this, limit, late = std::move(late)](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, stop, limit, [] { return false; });
        if (!stop.stop_requested()) late();
      }) {}

DeviceEnd::DeviceEnd(const CollectiveMaker& maker, c10::intrusive_ptr<c10d::Backend> backend,
                     std::chrono::milliseconds limit, std::function<void()> late)
    : thread_([&maker, backend = std::move(backend), limit, late = std::move(late)]() mutable {
        const TimeLimit in_time(limit, std::move(late));
        maker.end(*backend, /*has_failed=*/true);
        backend.reset();
      }) {}

}  // namespace lockstep
