// SPDX-License-Identifier: Apache-2.0
#include "lockstep/gpu/graph.h"

#include "lockstep/gpu/names.h"

namespace lockstep::gpu {
namespace {

// Who watches what. NCCL's watchdog, a thread of ProcessGroupNCCL, asks the end events of the collectives that were
// started one by one. Those that are recorded into a graph it never hears of: ProcessGroupNCCL looks whether the stream
// is being captured and leaves them out of the watchdog's list, since an event that is part of a graph may not be
// asked. So three things follow.
// - While a graph is recorded, the watchdog may still ask about earlier collectives. That is a call from another
// thread,
//   which a capture in the global mode forbids: this one is of its own thread only. The autograd engine's threads are
//   none the less part of it, since they queue their work on the stream that is captured.
// - A collective in a replayed graph that hangs is seen by the watchdog as little as by NCCL's time limit, nor does the
//   watchdog ask NCCL for its threads' failures then. So we watch: each wait of the trainer for the device
//   (Group::await_device(), Group::watch()) asks NCCL itself ten times a second, keeps the time limit, and ends the
//   communicator where either says so, which also takes the waiting kernels off the device.
// - Nothing of ours asks about captured work either: the trainer's own events are recorded after the replay, outside.
class RecordedStep final : public StepGraph {
 public:
  explicit RecordedStep(int index)
      : index_(static_cast<c10::DeviceIndex>(index)), pool_(at::cuda::graph_pool_handle()) {}

  void capture(const std::function<void()>& work) override {
    graph_.capture_begin(pool_, kCaptureOfThisThread);
    try {
      work();
      graph_.capture_end();
    } catch (...) {
      abandon();
      throw;
    }
  }

  void replay() override { graph_.replay(); }

 private:
  // A capture that broke off must be ended before its stream and LibTorch's allocator serve again. What goes wrong here
  // has its cause in what is thrown already.
  void abandon() {
    try {
      graph_.capture_end();
      return;
    } catch (const std::exception&) {
      forget_error();
    }
    try {
      allocator::endAllocateToPool(index_, pool_);
    } catch (const std::exception&) {
      forget_error();
    }
  }

  c10::DeviceIndex index_;
  decltype(at::cuda::graph_pool_handle()) pool_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<StepGraph> make_step_graph(int index) { return std::make_unique<RecordedStep>(index); }

}  // namespace lockstep::gpu
