// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/host_fetch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/device/watched_wait.h"

namespace lockstep {
namespace {

using Guard = c10::impl::VirtualGuardImpl;

// Large enough that the host's part of a copy is hidden, and small enough to pin without asking.
constexpr std::size_t kChunk = std::size_t{16} << 20;

}  // namespace

HostFetch::HostFetch(const c10::Device& device)
    : device_(device),
      stream_(Guard(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/false)),
      begun_(device.type()) {}

void HostFetch::begin() { begun_.record(Guard(device_.type()).getStream(device_)); }

void HostFetch::fetch(const at::Tensor& from, void* to) {
  const c10::StreamGuard on_stream(stream_);
  begun_.block(stream_);
  const auto bytes = from.nbytes();
  // The memory as it lies there, whatever the order of its dimensions.
  const auto source = at::from_blob(from.mutable_data_ptr(), {static_cast<std::int64_t>(bytes)},
                                    at::TensorOptions(device_).dtype(at::kByte));
  std::array<at::Tensor, 2> pinned;
  std::array<std::optional<c10::Event>, 2> done;
  for_each_chunk(
      bytes, kChunk,
      [&](int i, std::size_t offset, std::size_t count) {
        const auto size = static_cast<std::int64_t>(count);
        auto& chunk = pinned.at(static_cast<std::size_t>(i));
        if (!chunk.defined()) chunk = at::empty({size}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
        chunk.narrow(0, 0, size)
            .copy_(source.narrow(0, static_cast<std::int64_t>(offset), size), /*non_blocking=*/true);
        done.at(static_cast<std::size_t>(i)).emplace(device_.type()).record(stream_);
      },
      [&](int i, std::size_t offset, std::size_t count) {
        auto& event = done.at(static_cast<std::size_t>(i));
        watched_wait([&] { return event->query(); }, {}, std::chrono::microseconds(0));
        std::memcpy(static_cast<std::byte*>(to) + offset, pinned.at(static_cast<std::size_t>(i)).const_data_ptr(),
                    count);
      });
}

void for_each_chunk(std::size_t total, std::size_t chunk,
                    const std::function<void(int i, std::size_t offset, std::size_t bytes)>& start,
                    const std::function<void(int i, std::size_t offset, std::size_t bytes)>& finish) {
  const auto size_at = [&](std::size_t offset) { return std::min(chunk, total - offset); };
  int i = 0;
  for (std::size_t offset = 0; offset < total; offset += chunk, i = 1 - i) {
    start(i, offset, size_at(offset));
    if (offset > 0) finish(1 - i, offset - chunk, chunk);
  }
  if (total == 0) return;
  const auto last = (total - 1) / chunk * chunk;
  finish(1 - i, last, size_at(last));
}

}  // namespace lockstep
