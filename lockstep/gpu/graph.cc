// SPDX-License-Identifier: Apache-2.0
#include "lockstep/gpu/graph.h"

#include <ATen/Context.h>

#include "lockstep/gpu/names.h"

#if LOCKSTEP_TORCH_VERSION >= 209
#include <ATen/core/CachingHostAllocator.h>
#endif

namespace lockstep::gpu {
namespace {

// Who watches what. NCCL's watchdog, a thread of ProcessGroupNCCL, asks the end events of the collectives that were
// started one by one. Those that are recorded into a graph it never hears of: ProcessGroupNCCL looks whether the stream
// is being captured and leaves them out of the watchdog's list, since an event that is part of a graph may not be
// asked. So three things follow.
// - While a graph is recorded, the watchdog may still ask about earlier collectives. That is a call from another
//   thread, which a capture in the global mode forbids: this one is of its own thread only. The autograd engine's
//   threads are none the less part of it, since they queue their work on the stream that is captured.
// - A collective in a replayed graph that hangs is seen by the watchdog as little as by NCCL's time limit, nor does the
//   watchdog ask NCCL for its threads' failures then. So we watch: each wait of the trainer for the device
//   (Group::await_device(), Group::watch()) asks NCCL itself ten times a second, keeps the time limit, and ends the
//   communicator where either says so, which also takes the waiting kernels off the device.
// - Nothing of ours asks about captured work either: the trainer's own events are recorded after the replay, outside.

// Pinned memory has pools of its own in the newer of LibTorch's versions. In the older ones this is nothing.
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
  // A capture that broke off must be ended before its stream serves again. Where CUDA calls it invalid, capture_end()
  // stops there, and LibTorch stays as it is in a capture: memory goes to the graph's pool, which nobody ever empties,
  // and drawing a random number is refused ("Offset increment outside graph capture encountered unexpectedly").
  void abandon() {
    if (succeeds([&] { graph_.capture_end(); })) return;
    // Nothing is given back twice: each first call fails where capture_end() came so far.
    succeeds([&] {
      allocator::endAllocateToPool(index_, pool_);
      allocator::releasePool(index_, pool_);
    });
#if LOCKSTEP_TORCH_VERSION >= 209
    succeeds([&] { give_back_pinned(*at::getHostAllocator(at::kCUDA), pool_); });
#endif
    // A copy of the generator's state is in no capture.
    succeeds([&] {
      auto generator = at::globalContext().defaultGenerator({at::kCUDA, index_});
      generator.graphsafe_set_state(generator.clone());
    });
  }

  // What goes wrong here has its cause in what is thrown already.
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
