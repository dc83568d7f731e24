// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/device_end.h"

#include <utility>

// Communicators are ended in a thread, for this reason. A recorded graph that has a collective keeps its communicator
// alive. From 2.26 on, ncclCommAbort frees the kernels that wait on the device, and then waits without a limit until
// each such graph is destroyed. The exception that the caller throws next destroys the graph. In one thread the abort
// would wait for the graph, and the graph for the abort. A lost device may also block the destruction of the graph, and
// then nobody is left to report it, so the time limit has a thread too.
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
