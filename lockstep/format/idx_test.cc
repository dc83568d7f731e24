// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>
#include <random>
#include <string>

#include "lockstep/base/file.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using lockstep::testing::message_of;
using lockstep::testing::TemporaryFolder;
using Dimensions = std::vector<std::uint32_t>;

const std::filesystem::path kDigits = lockstep::testing::source_root() / "datasets/digits";

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string idx_of(const Dimensions& dimensions, const std::string& data, char type = 8) {
  std::string bytes = {0, 0, type, static_cast<char>(dimensions.size())};
  for (const auto size : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  }
  return bytes + data;
}

std::string gzipped(const std::string& plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, plain.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string refusal_of(const std::string& bytes) {
  const std::string message = message_of(ErrorKind::kData, [&] { parse_idx(bytes_of(bytes), "x.idx"); });
  return message.substr(0, message.find('\n'));
}

const std::string kSix = "abcdef";

TEST(Idx, ReadsPlainAndGzippedAlike) {
  const TemporaryFolder folder;
  const std::string plain = idx_of({3, 1, 2}, kSix);
  write_whole(folder.path() / "plain.gz", plain);
  write_whole(folder.path() / "packed", gzipped(plain));
  for (const std::string name : {"plain.gz", "packed"}) {
    const IdxArray array = read_idx(folder.path() / name);
    EXPECT_EQ(array.shape, (std::vector<std::int64_t>{3, 1, 2})) << name;
    EXPECT_EQ(array.size(), 3) << name;
    EXPECT_EQ(array.item_bytes(), 2U) << name;
    EXPECT_EQ(array.bytes, std::vector<std::byte>(bytes_of(kSix).begin(), bytes_of(kSix).end())) << name;
  }
}

TEST(Idx, ReadsTheDigitsThatAreShipped) {
  const IdxArray images = read_idx(kDigits / "train-images-idx3-ubyte.gz");
  const IdxArray labels = read_idx(kDigits / "train-labels-idx1-ubyte.gz");
  EXPECT_EQ(images.shape.size(), 3U);
  EXPECT_EQ(images.size(), labels.size());
  EXPECT_EQ(images.bytes.size(), static_cast<std::size_t>(images.size()) * images.item_bytes());
  EXPECT_EQ(labels.item_bytes(), 1U);
  for (const std::byte label : labels.bytes) ASSERT_LT(std::to_integer<int>(label), 10);
}

TEST(Idx, ReadsAnArrayWithoutItems) {
  const IdxArray array = parse_idx(bytes_of(idx_of({0, 28, 28}, "")), "x.idx");
  EXPECT_EQ(array.size(), 0);
  EXPECT_EQ(array.item_bytes(), 784U);
}

TEST(Idx, ReadsGzipMadeOfSeveralMembers) {
  const std::string plain = idx_of({3, 2}, kSix);
  const std::string packed = gzipped(plain.substr(0, 7)) + gzipped(plain.substr(7, 6)) + gzipped(plain.substr(13));
  EXPECT_EQ(parse_idx(bytes_of(packed), "x.idx").bytes.size(), 6U);
}

TEST(Idx, NamesAFileThatCannotBeRead) {
  EXPECT_HAS(message_of(ErrorKind::kIo, [] { read_idx("/nowhere/x.idx"); }),
             "open '/nowhere/x.idx' failed: No such file or directory");
  EXPECT_HAS(message_of(ErrorKind::kIo, [] { read_idx("/dev/null"); }), "read '/dev/null' failed");
}

TEST(Idx, RefusesAHeaderThatIsWrong) {
  EXPECT_EQ(refusal_of(""), "x.idx: the file holds 0 bytes, want at least 4 for the magic number");
  EXPECT_EQ(refusal_of("\x89PNG"), "x.idx: the magic number starts with 0x89 0x50, want 0x00 0x00");
  EXPECT_EQ(refusal_of(idx_of({6}, kSix, 0x0d)), "x.idx: the type is 0x0d (32-bit floats), want 0x08 (unsigned bytes)");
  EXPECT_EQ(refusal_of(idx_of({6}, kSix, 0x07)), "x.idx: the type is 0x07, want 0x08 (unsigned bytes)");
  EXPECT_EQ(refusal_of(idx_of({}, kSix)), "x.idx: the array has 0 dimensions, want at least 1");
  EXPECT_EQ(refusal_of(idx_of({3, 2}, "").substr(0, 9)), "x.idx: the file holds 9 bytes, want 12 for its header alone");
  EXPECT_EQ(refusal_of(idx_of({0, 4294967295, 4294967295, 2}, "")),
            "x.idx: the shape [0, 4294967295, 4294967295, 2] overflows 64 bits");
}

TEST(Idx, RefusesDataOfAnotherLengthThanTheHeaderSays) {
  EXPECT_EQ(refusal_of(idx_of({3, 2}, "abcde")), "x.idx: the file is cut short: 5 bytes of data, want 6 for [3, 2]");
  EXPECT_EQ(refusal_of(idx_of({3, 2}, "abcdefgh")), "x.idx: the file is too long: 8 bytes of data, want 6 for [3, 2]");
  EXPECT_EQ(refusal_of(gzipped(idx_of({3, 2}, "abcde"))),
            "x.idx: the file is cut short: unpacked, 5 bytes of data, want 6 for [3, 2]");
  EXPECT_EQ(refusal_of(gzipped(idx_of({3, 2}, "abcdefgh"))),
            "x.idx: the file is too long: unpacked, more than 6 bytes of data, want 6 for [3, 2]");
  EXPECT_EQ(refusal_of(gzipped("ab")), "x.idx: unpacked, the file holds 2 bytes, want at least 4 for the magic number");
  EXPECT_EQ(refusal_of(gzipped(idx_of({3, 2}, "").substr(0, 9))),
            "x.idx: unpacked, the file holds 9 bytes, want 12 for its header alone");
}

TEST(Idx, RefusesGzipThatIsDamagedOrCutShort) {
  const std::string packed = gzipped(idx_of({3, 2}, kSix));
  for (std::size_t size = 0; size < packed.size(); ++size) refusal_of(packed.substr(0, size));
  EXPECT_EQ(refusal_of(packed.substr(0, packed.size() - 1)),
            "x.idx: the file is cut short: the gzip stream ends without its checksum");
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;
  EXPECT_EQ(refusal_of(flipped), "x.idx: the gzip stream is damaged: incorrect data check");
  EXPECT_EQ(refusal_of(packed + "junk"), "x.idx: the gzip stream is damaged: incorrect header check");
}

TEST(Idx, ReservesAndUnpacksNoMoreThanTheHeaderPromises) {
  // A file of a hundred bytes whose header promises 4 TB, and a stream that would unpack to 64 MB although its header
  // promises 6 bytes.
  EXPECT_HAS(refusal_of(gzipped(idx_of({1024, 65535, 65535}, kSix))), "bytes of gzip unpack to at most");
  EXPECT_HAS(refusal_of(gzipped(idx_of({3, 2}, std::string(64'000'000, 'x')))), "more than 6 bytes of data");
}

TEST(Idx, TakesOrRefusesAnyBytesWithoutHarm) {
  const std::vector<std::string> seeds = {idx_of({3, 2}, kSix), gzipped(idx_of({3, 2}, kSix)),
                                          gzipped(idx_of({20, 30}, std::string(600, 'x')))};
  std::mt19937 random(20240229);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int taken = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int round = 0; round < 20'000 && std::chrono::steady_clock::now() < until; ++round) {
    std::string bytes = seeds[below(seeds.size())];
    for (std::size_t n = below(3); n > 0 && !bytes.empty(); --n) {
      const std::size_t at = below(bytes.size());
      switch (below(3)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes.erase(at, 1 + below(8));
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(16)));
      }
    }
    try {
      const IdxArray array = parse_idx(bytes_of(bytes), "x.idx");
      ASSERT_EQ(array.bytes.size(), static_cast<std::size_t>(array.size()) * array.item_bytes());
      ++taken;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  }
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace lockstep
