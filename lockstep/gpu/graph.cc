// SPDX-License-Identifier: Apache-2.0
#include "lockstep/gpu/graph.h"

#include <ATen/Context.h>

#include "lockstep/gpu/names.h"

#if LOCKSTEP_TORCH_VERSION >= 209
#include <ATen/core/CachingHostAllocator.h>
#endif

namespace lockstep::gpu {
namespace {

// How a graph is recorded and watched. NCCL's watchdog, a thread of ProcessGroupNCCL, polls the end events of
// collectives that were started one by one. It does not know those that are recorded into a graph. ProcessGroupNCCL
// leaves them out if the stream is being captured, since an event that is part of a graph may not be polled. Three
// things follow.
// - While a graph is recorded, the watchdog may still poll events of earlier collectives. That is a call from another
//   thread, which a capture in the global mode forbids. So the capture is in the thread-local mode. The autograd
//   engine's threads still take part in it, since they queue their work on the captured stream.
// - If a collective in a replayed graph hangs, neither the watchdog nor NCCL's time limit notices, and the watchdog
//   does not ask NCCL for its threads' failures. So Lockstep watches by itself. Each wait of the trainer for the device
//   (Group::await_device(), Group::watch()) asks NCCL itself ten times a second and keeps the time limit. If either
//   reports a failure, it ends the communicator, which also takes the waiting kernels off the device.
// - Lockstep does not poll captured work either. The trainer's own events are recorded after the replay, outside the
//   graph.

// In newer versions of LibTorch, pinned memory has its own pools. In older versions this function does nothing.
template <typename HostAllocator, typename Pool>
void give_back_pinned(HostAllocator& allocator, const Pool& pool) {
  if constexpr (requires { allocator.release_pool(pool); }) {
    allocator.end_allocate_to_pool(pool);
    allocator.release_pool(pool);
  }
}

class RecordedStep final : public StepGraph {
 public:
  explicit RecordedStep(int index)
      : index_(static_cast<c10::DeviceIndex>(index)), pool_(at::cuda::graph_pool_handle()) {}

  void capture(const std::function<void()>& work) override {
    try {
      graph_.capture_begin(pool_, kCaptureOfThisThread);
      work();
      graph_.capture_end();
    } catch (...) {
      abandon();
      throw;
    }
  }

  void replay() override { graph_.replay(); }

 private:
  // A capture that failed must be ended before its stream can be used again. If CUDA reports that the capture is
  // invalid, capture_end() stops there, and LibTorch stays in the capture. Memory then goes to the graph's pool, which
  // nobody ever empties, and drawing a random number fails ("Offset increment outside graph capture encountered
  // unexpectedly").
  void abandon() {
    if (succeeds([&] { graph_.capture_end(); })) return;
    // Nothing is released twice, since each first call fails at the step that capture_end() reached.
    succeeds([&] {
      allocator::endAllocateToPool(index_, pool_);
      allocator::releasePool(index_, pool_);
    });
#if LOCKSTEP_TORCH_VERSION >= 209
    succeeds([&] { give_back_pinned(*at::getHostAllocator(at::kCUDA), pool_); });
#endif
    // A copy of the generator's state does not belong to any capture.
    succeeds([&] {
      auto generator = at::globalContext().defaultGenerator({at::kCUDA, index_});
      generator.graphsafe_set_state(generator.clone());
    });
  }

  // A failure here is a consequence of the exception that is being thrown already, so it is ignored.
  static bool succeeds(const std::function<void()>& work) {
    try {
      work();
      return true;
    } catch (const std::exception&) {
      forget_error();
      return false;
    }
  }

  c10::DeviceIndex index_;
  decltype(at::cuda::graph_pool_handle()) pool_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<StepGraph> make_step_graph(int index) { return std::make_unique<RecordedStep>(index); }

}  // namespace lockstep::gpu
