// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace lockstep {

/// One copy: from a dense tensor on a device to host memory of from.nbytes() bytes.
struct HostCopy {
  at::Tensor from;
  void* to = nullptr;
};

/// Copies tensors from a device into plain host memory, on a stream of its own and through two small chunks of pinned
/// memory. So a save of any size needs little pinned memory, and the device's own stream goes on meanwhile. Small
/// tensors share a chunk, since each wait for the device costs more than they do.
///
///     lockstep::HostFetch fetch(tensor.device());
///     fetch.begin();                                    // training thread: what was enqueued so far comes first
///     fetch.fetch({{tensor, own.mutable_data_ptr()}});  // another thread
///
/// Threads: begin() on the thread that enqueues the device's work, then fetch() on one other thread.
class HostFetch {
 public:
  explicit HostFetch(const c10::Device& device);

  /// Copies that begin later wait for the present work on this thread's current stream. The host does not wait.
  void begin();
  /// Copies the bytes of the tensors in the order of their memory. Blocks: until all bytes are on the host.
  void fetch(const std::vector<HostCopy>& copies);

 private:
  c10::Device device_;
  c10::Stream stream_;
  c10::Event begun_;
};

/// Calls `start(i, offset, bytes)` and later `finish(i, offset, bytes)` for each chunk of `total` bytes, in order. `i`
/// is 0 and 1 by turns. A chunk is started before the one before it is finished, so that both overlap.
void for_each_chunk(std::size_t total, std::size_t chunk,
                    const std::function<void(int i, std::size_t offset, std::size_t bytes)>& start,
                    const std::function<void(int i, std::size_t offset, std::size_t bytes)>& finish);

/// A part of one block of memory. Several blocks are numbered as if they followed each other without gaps. A range of
/// these numbers consists of such parts.
struct BlockPart {
  std::size_t block = 0;
  std::size_t offset = 0;    ///< In the block.
  std::size_t in_range = 0;  ///< In the range.
  std::size_t bytes = 0;
};

/// Returns the parts of blocks of these sizes that the range [offset, offset + bytes) holds.
std::vector<BlockPart> parts_in_range(const std::vector<std::size_t>& sizes, std::size_t offset, std::size_t bytes);

}  // namespace lockstep
