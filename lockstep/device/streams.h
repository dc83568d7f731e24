// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

/// Copies to a device in parallel with the work on it. Threads: one caller.
class CopyStream {
 public:
  virtual ~CopyStream() = default;

  /// Begins to copy host tensors to the device. From pinned memory it does not wait. The results may not be used before
  /// receive().
  virtual std::vector<at::Tensor> send(const std::vector<at::Tensor>& host) = 0;

  /// This thread's current stream waits, and the host does not, until all that was sent is there.
  virtual void receive(const std::vector<at::Tensor>& sent) = 0;
};

/// Returns a CopyStream with its own stream. For the backends of devices that have streams.
std::unique_ptr<CopyStream> make_copy_stream(const c10::Device& device);

/// While it lives, this thread's work for the device goes to a stream other than the default one, which no graph can
/// record. It waits for earlier work, and later work waits for it. On a CPU it does nothing.
class ComputeStreamScope {
 public:
  explicit ComputeStreamScope(const c10::Device& device);
  ~ComputeStreamScope();
  ComputeStreamScope(const ComputeStreamScope&) = delete;
  ComputeStreamScope& operator=(const ComputeStreamScope&) = delete;

 private:
  std::optional<c10::Stream> before_;
  std::optional<c10::Stream> own_;
};

/// A few numbers on their way from a device to the host, so that the host reads them later, when they are there, and
/// not now, when it would have to wait for all that the device still has to do.
class Readback {
 public:
  /// Begins a copy of `from`, after the work on this thread's current stream. A copy begun before is dropped.
  void begin(const at::Tensor& from);
  bool has_begun() const { return done_.has_value(); }
  /// Returns the tensor whose copy was begun, on the CPU. If given, `look` is called now and then meanwhile. An
  /// exception from it ends the wait.
  /// Blocks: until it is there.
  const at::Tensor& wait(const std::function<void()>& look = {});

 private:
  at::Tensor host_;
  std::optional<c10::Event> done_;
};

}  // namespace lockstep
