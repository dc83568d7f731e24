// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

struct Golden {
  std::string text;
  std::uint64_t hash64;
  std::string hash128;
};

std::string counting(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(i % 256);
  return text;
}

// The expected values come from Python's xxhash 4.1.0: xxh3_64_intdigest and xxh3_128_hexdigest.
const std::vector<Golden> kGolden = {
    {"", 0x2d06800538d394c2, "99aa06d3014798d86001c324468d497f"},
    {"a", 0xe6c632b61e964e1f, "a96faf705af16834e6c632b61e964e1f"},
    {"lockstep", 0x2f270043200950ec, "b4ead11c934f0a1e75345b2b871d8c38"},
    {counting(1024), 0xa870f92984398d22, "83885e853bb6640ca870f92984398d22"},
    {std::string(100000, 'x'), 0xd8b99a30e426ac41, "0fe996a84987456bd8b99a30e426ac41"},
};

TEST(Xxh3, EqualsTheReferenceImplementation) {
  for (const auto& [text, hash64, hash128] : kGolden) {
    EXPECT_EQ(xxh3_64(text), hash64) << text.size();
    EXPECT_EQ(xxh3_64(std::as_bytes(std::span(text))), hash64) << text.size();
  }
}

TEST(Xxh3Stream, GivesTheSameWhereverItIsCut) {
  for (const auto& [text, hash64, hash128] : kGolden) {
    for (const std::size_t part : {1U, 3U, 240U, 65536U}) {
      Xxh3Stream stream;
      for (std::size_t at = 0; at < text.size(); at += part) {
        stream.update(std::as_bytes(std::span(text).subspan(at, std::min(part, text.size() - at))));
      }
      EXPECT_EQ(stream.digest64(), hash64) << text.size() << " in parts of " << part;
      EXPECT_EQ(stream.digest128_hex(), hash128) << text.size() << " in parts of " << part;
    }
  }
}

TEST(Xxh3Stream, GoesOnAfterADigestAndAfterAMove) {
  const std::string text = "lockstep";
  Xxh3Stream first;
  first.update(std::as_bytes(std::span(text).first(4)));
  EXPECT_EQ(first.digest64(), xxh3_64("lock"));
  Xxh3Stream second = std::move(first);
  second.update(std::as_bytes(std::span(text).subspan(4)));
  EXPECT_EQ(second.digest64(), kGolden[2].hash64);
}

// The expected values come from the same formula in Python, modulo 2^64.
TEST(Mixed, IsTheSameOnEveryMachineAndTellsItsArgumentsApart) {
  static_assert(mixed(0, 0) == 0xa706dd2f4d197e6f);
  static_assert(mixed(1, 2) == 0xbcd9dbb49673066b);
  static_assert(mixed(2, 1) == 0xe06dd043328bd285);
  static_assert(mixed(~0ULL, ~0ULL) == 0x6309143e67a47936);
  EXPECT_NE(mixed(1, 2), mixed(2, 1));
}

}  // namespace
}  // namespace lockstep
