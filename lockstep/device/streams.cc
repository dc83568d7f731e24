// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/streams.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/base/error.h"
#include "lockstep/device/watched_wait.h"

namespace lockstep {
namespace {

using Guard = c10::impl::VirtualGuardImpl;

void wait_for(const c10::Stream& waiting, const c10::Stream& other) {
  c10::Event event(other.device_type());
  event.record(other);
  event.block(waiting);
}

class StreamCopies final : public CopyStream {
 public:
  explicit StreamCopies(const c10::Device& device)
      : device_(device),
        guard_(device.type()),
        stream_(guard_.getStreamFromGlobalPool(device, /*isHighPriority=*/false)),
        done_(device.type()) {}

  std::vector<at::Tensor> send(const std::vector<at::Tensor>& host) override {
    const c10::StreamGuard on_stream(stream_);
    std::vector<at::Tensor> sent;
    for (const auto& each : host) sent.push_back(each.to(each.options().device(device_), /*non_blocking=*/true));
    done_.record(stream_);
    return sent;
  }

  // The memory comes from this stream's pool. It must not be used again before the other stream has finished with it.
  void receive(const std::vector<at::Tensor>& sent) override {
    const auto current = guard_.getStream(device_);
    done_.block(current);
    for (const auto& each : sent) each.record_stream(current);
  }

 private:
  c10::Device device_;
  Guard guard_;
  c10::Stream stream_;
  c10::Event done_;
};

}  // namespace

std::unique_ptr<CopyStream> make_copy_stream(const c10::Device& device) {
  return std::make_unique<StreamCopies>(device);
}

ComputeStreamScope::ComputeStreamScope(const c10::Device& device) {
  if (device.is_cpu()) return;
  const Guard guard(device.type());
  before_ = guard.getStream(device);
  own_ = guard.getStreamFromGlobalPool(device, /*isHighPriority=*/false);
  wait_for(*own_, *before_);
  guard.exchangeStream(*own_);
}

ComputeStreamScope::~ComputeStreamScope() {
  if (!before_) return;
  try {
    Guard(before_->device_type()).exchangeStream(*before_);
    wait_for(*before_, *own_);
  } catch (const std::exception&) {
    // A failed device has already been reported.
  }
}

void Readback::begin(const at::Tensor& from) {
  if (!host_.defined()) host_ = at::empty(from.sizes(), from.options().device(at::kCPU).pinned_memory(!from.is_cpu()));
  host_.copy_(from, /*non_blocking=*/true);
  done_.emplace(from.device().type());
  if (!from.is_cpu()) done_->record(Guard(from.device().type()).getStream(from.device()));
}

const at::Tensor& Readback::wait(const std::function<void()>& look) {
  LOCKSTEP_ASSERT(done_);
  if (done_->was_marked_for_recording()) watched_wait([this] { return done_->query(); }, look);
  done_.reset();
  return host_;
}

}  // namespace lockstep
