// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/host_fetch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>

#include "lockstep/device/watched_wait.h"

namespace lockstep {
namespace {

using Guard = c10::impl::VirtualGuardImpl;

// The bytes of a chunk. Chunks are so large that the device copies one while the host handles another, and so small
// that pinning them does no harm.
constexpr std::size_t kChunk = std::size_t{16} << 20;

}  // namespace

HostFetch::HostFetch(const c10::Device& device)
    : device_(device),
      stream_(Guard(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/false)),
      begun_(device.type()) {}

void HostFetch::begin() { begun_.record(Guard(device_.type()).getStream(device_)); }

void HostFetch::fetch(const std::vector<HostCopy>& copies) {
  const c10::StreamGuard on_stream(stream_);
  begun_.block(stream_);
  std::vector<std::size_t> sizes;
  std::vector<at::Tensor> sources;  // The memory as it lies there, whatever the order of its dimensions.
  for (const auto& each : copies) {
    sizes.push_back(each.from.nbytes());
    sources.push_back(at::from_blob(each.from.mutable_data_ptr(), {static_cast<std::int64_t>(each.from.nbytes())},
                                    at::TensorOptions(device_).dtype(at::kByte)));
  }
  const auto total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  const auto room = static_cast<std::int64_t>(std::min(total, kChunk));
  std::array<at::Tensor, 2> pinned;
  for (auto& each : pinned) each = at::empty({room}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  std::array<std::optional<c10::Event>, 2> done;
  const auto piece = [](const at::Tensor& memory, std::size_t offset, std::size_t bytes) {
    return memory.narrow(0, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes));
  };
  for_each_chunk(
      total, kChunk,
      [&](int i, std::size_t offset, std::size_t bytes) {
        const auto& chunk = pinned.at(static_cast<std::size_t>(i));
        for (const auto& part : parts_in_range(sizes, offset, bytes)) {
          piece(chunk, part.in_range, part.bytes)
              .copy_(piece(sources[part.block], part.offset, part.bytes), /*non_blocking=*/true);
        }
        done.at(static_cast<std::size_t>(i)).emplace(device_.type()).record(stream_);
      },
      [&](int i, std::size_t offset, std::size_t bytes) {
        auto& event = done.at(static_cast<std::size_t>(i));
        watched_wait([&] { return event->query(); }, {}, std::chrono::microseconds(0));
        const auto* chunk = static_cast<const std::byte*>(pinned.at(static_cast<std::size_t>(i)).const_data_ptr());
        for (const auto& part : parts_in_range(sizes, offset, bytes)) {
          std::memcpy(static_cast<std::byte*>(copies[part.block].to) + part.offset, chunk + part.in_range, part.bytes);
        }
      });
}

std::vector<BlockPart> parts_in_range(const std::vector<std::size_t>& sizes, std::size_t offset, std::size_t bytes) {
  std::vector<BlockPart> parts;
  std::size_t begin = 0;
  for (std::size_t block = 0; block < sizes.size(); begin += sizes[block], ++block) {
    const auto from = std::max(begin, offset);
    const auto to = std::min(begin + sizes[block], offset + bytes);
    if (from < to) parts.push_back({block, from - begin, from - offset, to - from});
  }
  return parts;
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
