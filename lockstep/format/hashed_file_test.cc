// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/hashed_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr std::size_t kLarge = std::size_t{33} << 20U;

std::string made_up(std::size_t bytes) {
  std::string text(bytes, '\0');
  std::uint64_t state = 1;
  for (auto& each : text) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    each = static_cast<char>(state >> 56U);
  }
  return text;
}

class HashedFileTest : public ::testing::Test {
 protected:
  // Returns parts of many sizes. The first ones have the size of a header.
  WrittenFile write(const std::string& text, std::uint64_t expected) {
    const auto file = open_file(path_, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    HashedFile out(file.get(), path_, expected);
    std::string_view left = text;
    for (std::size_t size = 8; !left.empty(); size = size * 3 + 1) {
      out.append(std::as_bytes(std::span(left.substr(0, size))));
      left.remove_prefix(std::min(size, left.size()));
      passed_the_cache_ = passed_the_cache_ || (::fcntl(file.get(), F_GETFL) & O_DIRECT) != 0;
    }
    return out.finished();
  }

  testing::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "file";
  bool passed_the_cache_ = false;
};

TEST_F(HashedFileTest, OfALargeFileIsTheSameWhicheverWayItGoes) {
  for (const std::size_t bytes : {kLarge - 4096, kLarge, kLarge + 1, kLarge + 4097}) {
    const auto text = made_up(bytes);
    const auto plain = write(text, 0);
    EXPECT_FALSE(passed_the_cache_);
    EXPECT_EQ(plain.bytes, bytes);
    EXPECT_EQ(write(text, bytes), plain);
    EXPECT_EQ(text_of_file(path_), text) << bytes;
    passed_the_cache_ = false;
  }
}

TEST_F(HashedFileTest, OfAnExpectationThatIsWrongIsTheSameToo) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{5000}}) {
    const auto text = made_up(bytes);
    const auto plain = write(text, 0);
    EXPECT_EQ(write(text, kLarge), plain);
    EXPECT_EQ(text_of_file(path_), text) << bytes;
  }
}

// Writes of others after this object's end must be unaffected.
TEST_F(HashedFileTest, LeavesTheDescriptorAsItWas) {
  const auto file = open_file(path_, O_WRONLY | O_CREAT, 0600);
  HashedFile out(file.get(), path_, kLarge);
  out.append(std::as_bytes(std::span("abc", 3)));
  out.finished();
  EXPECT_EQ(::fcntl(file.get(), F_GETFL) & O_DIRECT, 0);
}

}  // namespace
}  // namespace lockstep
