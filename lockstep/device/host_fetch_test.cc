// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/host_fetch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace lockstep {
namespace {

// Copies through two chunks of memory, as HostFetch does. If a chunk is started too early, it overwrites another one.
TEST(Chunks, PassThroughTwoBuffersInOrderWhateverTheLength) {
  for (std::size_t total = 0; total <= 41; ++total) {
    std::string from, to(total, '?');
    for (std::size_t i = 0; i < total; ++i) from += static_cast<char>('A' + i);
    std::array<std::string, 2> buffers{std::string(8, '-'), std::string(8, '-')};
    std::vector<std::string> story;
    for_each_chunk(
        total, 8,
        [&](int i, std::size_t offset, std::size_t bytes) {
          story.push_back("start");
          std::memcpy(buffers.at(static_cast<std::size_t>(i)).data(), from.data() + offset, bytes);
        },
        [&](int i, std::size_t offset, std::size_t bytes) {
          story.push_back("finish");
          std::memcpy(to.data() + offset, buffers.at(static_cast<std::size_t>(i)).data(), bytes);
        });
    EXPECT_EQ(to, from) << total;
    EXPECT_EQ(story.size(), 2 * ((total + 7) / 8)) << total;
    if (total > 8) {
      EXPECT_EQ(story[1], "start") << "the second chunk is on its way while the first is awaited";
    }
  }
}

TEST(Chunks, OfSeveralBlocksHoldEachByteOnce) {
  const std::vector<std::size_t> sizes = {3, 0, 10, 1, 7, 21};
  std::vector<std::string> blocks, found;
  char next = 'A';
  for (const auto size : sizes) {
    std::string block;
    for (std::size_t i = 0; i < size; ++i) block += next++;
    blocks.push_back(block);
    found.emplace_back(size, '?');
  }
  for (std::size_t offset = 0; offset < 42; offset += 8) {
    std::size_t filled = 0;
    for (const auto& part : parts_in_range(sizes, offset, std::min<std::size_t>(8, 42 - offset))) {
      EXPECT_EQ(part.in_range, filled);
      filled += part.bytes;
      found[part.block].replace(part.offset, part.bytes, blocks[part.block], part.offset, part.bytes);
    }
    EXPECT_EQ(filled, std::min<std::size_t>(8, 42 - offset));
  }
  EXPECT_EQ(found, blocks);
}

}  // namespace
}  // namespace lockstep
