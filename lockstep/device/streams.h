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

  /// Begins to copy host tensors to the device. If they are in pinned memory, the host does not wait. The results may
  /// not be used before receive().
  virtual std::vector<at::Tensor> send(const std::vector<at::Tensor>& host) = 0;

  /// Makes this thread's current stream wait until all copies have arrived. The host does not wait.
  virtual void receive(const std::vector<at::Tensor>& sent) = 0;
};

/// Returns a CopyStream with its own stream. For the backends of devices that have streams.
std::unique_ptr<CopyStream> make_copy_stream(const c10::Device& device);

/// While an object of this class lives, this thread's work goes to another stream than the device's default one, which
/// no graph can record. The work on this stream waits for earlier work, and later work waits for this stream. On a CPU
/// nothing changes.
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

/// Copies a few numbers from a device to the host in the background. The host reads them later, when they have arrived.
/// Reading them at once would make the host wait for all work that the device still has.
class Readback {
 public:
  /// Begins a copy of `from`, after the work on this thread's current stream. The result of an earlier copy is dropped.
  void begin(const at::Tensor& from);
  bool has_begun() const { return done_.has_value(); }
  /// Returns the tensor whose copy was begun, on the CPU. If given, `look` is called now and then meanwhile. An
  /// exception from it ends the wait.
  /// Blocks: until the copy is complete.
  const at::Tensor& wait(const std::function<void()>& look = {});

 private:
  at::Tensor host_;
  std::optional<c10::Event> done_;
};

}  // namespace lockstep
