// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/safetensors.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>

#include "lockstep/base/checksum.h"
#include "lockstep/base/file.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using lockstep::testing::message_of;
using lockstep::testing::TemporaryFolder;

const std::filesystem::path kGolden = lockstep::testing::source_root() / "tests/golden/safetensors";

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Returns the bytes of a file: the header's length, the header, then the data.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

WrittenFile write_to(const std::filesystem::path& path, std::span<const TensorEntry> tensors,
                     const std::map<std::string, std::string>& metadata = {}) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  return write_safetensors(file.get(), path, tensors, metadata);
}

std::string refusal_of(const std::string& bytes) {
  const std::string message =
      message_of(ErrorKind::kData, [&] { SafetensorsFile::parse(bytes_of(bytes), "m.safetensors"); });
  EXPECT_TRUE(message.starts_with("m.safetensors: ")) << message;
  return message.substr(0, message.find('\n'));
}

TEST(Safetensors, ReadsWhatPythonWrites) {
  const auto file = SafetensorsFile::open(kGolden / "mixed.safetensors");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), 11U);
  const TensorEntry* conv = file.find("layer1.0.conv1.weight");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->dtype, "F32");
  EXPECT_EQ(conv->shape, (std::vector<std::int64_t>{2, 3, 3, 3}));
  EXPECT_EQ(file.find("layer1.0.bn1.num_batches_tracked")->shape, std::vector<std::int64_t>{});
  EXPECT_EQ(file.find("none")->shape, (std::vector<std::int64_t>{0, 4}));
  EXPECT_NE(file.find("raw \"quoted\" \\ \u00e9\u4e16\n"), nullptr);
  EXPECT_EQ(file.find("absent"), nullptr);
  for (const auto& tensor : file.tensors()) {
    const unsigned mask = tensor.dtype == "BOOL" ? 1 : 255;
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
      ASSERT_EQ(std::to_integer<unsigned>(tensor.bytes[i]), (i * 7 + 3) & mask) << tensor.name << " byte " << i;
    }
  }
}

TEST(Safetensors, WritesTheBytesThatPythonWrites) {
  const TemporaryFolder folder;
  for (const std::string name : {"mixed.safetensors", "empty.safetensors"}) {
    const auto golden = SafetensorsFile::open(kGolden / name);
    // Narrow dtypes come first here. The writer must put the wide ones in front.
    std::vector<TensorEntry> tensors = golden.tensors();
    std::ranges::stable_sort(tensors, {}, [](const TensorEntry& tensor) { return dtype_bytes(tensor.dtype); });
    const auto written = write_to(folder.path() / name, tensors, golden.metadata());
    const std::string wanted = text_of_file(kGolden / name);
    EXPECT_EQ(text_of_file(folder.path() / name), wanted);
    EXPECT_EQ(written, (WrittenFile{.bytes = wanted.size(), .xxh3 = xxh3_64(wanted)}));
  }
}

TEST(Safetensors, StaysReadableWhenMoved) {
  auto first = SafetensorsFile::open(kGolden / "mixed.safetensors");
  auto second = SafetensorsFile::open(kGolden / "empty.safetensors");
  second = std::move(first);
  const SafetensorsFile third = std::move(second);
  EXPECT_EQ(third.find("fc.bias")->bytes.size(), 40U);
}

TEST(Safetensors, WritesThousandsOfSmallTensorsAndOneLarge) {
  const TemporaryFolder folder;
  std::mt19937 random(7);
  std::vector<std::byte> data(3'000'001);
  std::ranges::generate(data, [&] { return static_cast<std::byte>(random()); });
  std::vector<TensorEntry> tensors;
  for (std::int64_t i = 0; i < 3000; ++i) {
    const auto size = static_cast<std::size_t>(i % 5);
    tensors.push_back({std::to_string(i), "U8", {i % 5}, std::span(data).subspan(i, size)});
  }
  tensors.push_back({"large", "U8", {3'000'001}, data});
  const auto written = write_to(folder.path() / "many", tensors);
  EXPECT_EQ(written.xxh3, xxh3_64(text_of_file(folder.path() / "many")));
  const auto file = SafetensorsFile::open(folder.path() / "many");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const auto& tensor : tensors) {
    ASSERT_TRUE(std::ranges::equal(file.find(tensor.name)->bytes, tensor.bytes)) << tensor.name;
  }
}

TEST(Safetensors, SaysThatTheDiskIsFull) {
  const std::vector<std::byte> data(100'000);
  const TensorEntry tensor{"t", "U8", {100'000}, data};
  const std::string message = message_of(ErrorKind::kIo, [&] { write_to("/dev/full", std::span(&tensor, 1)); });
  EXPECT_EQ(message,
            "write '/dev/full' failed: No space left on device\n  hint: free some space, or put the run elsewhere with "
            "--run-dir; what was saved before is untouched");
}

TEST(Safetensors, NamesAFileThatCannotBeOpened) {
  EXPECT_HAS(message_of(ErrorKind::kIo, [] { SafetensorsFile::open("/nowhere/m.safetensors"); }),
             "open '/nowhere/m.safetensors' failed: No such file or directory");
  EXPECT_HAS(message_of(ErrorKind::kIo, [] { SafetensorsFile::open("/tmp"); }), "read '/tmp' failed: Is a directory");
}

TEST(Safetensors, AssertsThatBytesFitTheShapeAndNamesAreUnique) {
  const TemporaryFolder folder;
  const std::vector<std::byte> data(8);
  const std::vector<TensorEntry> wrong = {{"t", "F32", {3}, data}};
  const std::vector<TensorEntry> twice = {{"t", "F32", {2}, data}, {"t", "F32", {2}, data}};
  message_of(ErrorKind::kBug, [&] { write_to(folder.path() / "wrong", wrong); });
  message_of(ErrorKind::kBug, [&] { write_to(folder.path() / "twice", twice); });
  EXPECT_HAS(message_of(ErrorKind::kData, [] { dtype_bytes("F31"); }), "the dtype is 'F31'");
}

struct Refused {
  std::string header;
  std::string data;
  std::string message;
};

const std::string kEight(8, 'x');
const std::vector<Refused> kRefused = {
    {"", "", "the header does not start with '{'"},
    {" {}", "", "the header does not start with '{'"},
    {"{", "", "the header is no JSON from its byte 2 on"},
    {"{}x", "", "the header is no JSON from its byte 3 on"},
    {R"({"a":{"shape":[1],"data_offsets":[0,8]}})", kEight, "tensor 'a': 'dtype' is missing"},
    {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,8]}})", kEight, "tensor 'a': the dtype is number, want text"},
    {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,8]}})", kEight,
     "tensor 'a': the dtype is 'F31', want one of "},
    {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", kEight, "tensor 'a': the shape is number, want a list"},
    {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", kEight,
     "tensor 'a': the shape holds -2, want whole numbers of 0 or more"},
    {R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", kEight,
     "tensor 'a': the shape holds 2.5, want whole numbers of 0 or more"},
    {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})", kEight,
     "tensor 'a': the shape holds 9223372036854775808, want less than 2^63"},
    {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", kEight,
     "tensor 'a': the shape overflows 64 bits"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", kEight,
     "tensor 'a': has 8 bytes, want 12 for its dtype and shape"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", kEight,
     "tensor 'a': 'data_offsets' is no pair [begin, end]"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", kEight,
     "tensor 'a': lies at [8, 0) of the data, want it within the 8 bytes there are"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", kEight,
     "tensor 'a': lies at [0, 12) of the data, want it within the 8 bytes there are"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
     kEight, "tensor 'b': starts at byte 2 of the data, want 4, where 'a' ends"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", kEight,
     "tensor 'a': starts at byte 4 of the data, want 0 for the first"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", kEight,
     "the file holds 8 bytes of data, want 4 for its tensors"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
     kEight, "the header holds 'a' twice, want each name once"},
    {R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", kEight,
     "the header holds 'shape' twice, want each name once"},
    {R"({"a":[]})", "", "tensor 'a': is array, want an object"},
    {R"({"__metadata__":[]})", "", "'__metadata__' is array, want an object"},
    {R"({"__metadata__":{"a":1}})", "", "'__metadata__' has number at 'a', want text"},
    {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,8]}})", kEight, "the header nests deeper than 3 levels"},
    {R"({"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,8]}})", kEight,
     "the header holds a number that does not fit 64 bits"},
    {"{\"\xff\":{}}", "", "the header is no JSON from its byte 3 on"},
};

TEST(Safetensors, RefusesAHeaderThatLies) {
  for (const auto& [header, data, message] : kRefused) {
    EXPECT_HAS(refusal_of(file_of(header, data)), message) << header;
  }
}

TEST(Safetensors, RefusesAFileThatIsCutShort) {
  const std::string whole = text_of_file(kGolden / "mixed.safetensors");
  for (std::size_t size = 0; size < whole.size(); ++size) refusal_of(whole.substr(0, size));
  EXPECT_HAS(refusal_of(whole.substr(0, 7)), "holds 7 bytes, want at least 8");
  EXPECT_HAS(refusal_of(whole.substr(0, 100)), "want at most the 92 that follow");
  EXPECT_HAS(refusal_of(whole + "x"), "314 bytes of data, want 313");
  EXPECT_HAS(refusal_of(std::string(16, '\xff')),
             "the header's length is 18446744073709551615 bytes, want at most 100000000");
}

TEST(Safetensors, NestingWithoutEndIsRefusedAtOnce) {
  EXPECT_HAS(refusal_of(file_of("{\"a\":" + std::string(1'000'000, '['), "")), "nests deeper");
}

TEST(Safetensors, TakesOrRefusesAnyBytesWithoutHarm) {
  const std::string seed_file = text_of_file(kGolden / "mixed.safetensors");
  std::mt19937 random(20240229);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int taken = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int round = 0; round < 20'000 && std::chrono::steady_clock::now() < until; ++round) {
    std::string bytes = seed_file;
    for (std::size_t n = 0; n <= below(4); ++n) {
      const std::size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes.erase(at, 1 + below(8));
          break;
        case 2:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(32)));
          break;
        default:
          bytes[at] = "{}[]\",:0129-eE."[below(15)];
      }
      if (bytes.empty()) bytes = seed_file;
    }
    try {
      const auto file = SafetensorsFile::parse(bytes_of(bytes), "m.safetensors");
      ++taken;
      std::size_t sum = 0;
      for (const auto& tensor : file.tensors()) {
        for (const std::byte value : tensor.bytes) sum += std::to_integer<std::size_t>(value);
      }
      EXPECT_LE(sum, bytes.size() * 255);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  }
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace lockstep
