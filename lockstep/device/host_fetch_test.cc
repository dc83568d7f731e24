// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/host_fetch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace lockstep {
namespace {

// Two chunks of memory stand between, as with a device: a chunk that is started too early overwrites another.
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

}  // namespace
}  // namespace lockstep
