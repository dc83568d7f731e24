// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/weights/weights_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_writer.h"
#include "lockstep/format/torch/file.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

const fs::path kGolden = lockstep::testing::source_root() / "tests/golden/weights";

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const auto byte : bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte) >> 4U];
    text += kDigits[std::to_integer<std::size_t>(byte) & 15U];
  }
  return text;
}

nlohmann::json found_in(const WeightsFile& weights) {
  auto found = nlohmann::json::object();
  for (const auto& tensor : weights.tensors()) {
    found[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"hex", hex(tensor.bytes)}};
  }
  return found;
}

/// Returns the message with which `text` is refused as a file of torch.save.
std::string refusal(const std::string& text) {
  return message_of(ErrorKind::kData, [&] { parse_torch_file(std::as_bytes(std::span(text)), "x.pt"); });
}

std::string with_byte(std::string text, std::string_view after, int offset, char byte) {
  const auto at = text.find(after);
  EXPECT_NE(at, std::string::npos) << after;
  text.at(at + after.size() + static_cast<std::size_t>(offset)) = byte;
  return text;
}

TEST(WeightsFile, HoldsWhatTorchSavedBitForBit) {
  const auto expected = nlohmann::json::parse(text_of_file(kGolden / "expected.json"));
  ASSERT_GE(expected.size(), 10U);
  for (const auto& [file, tensors] : expected.items()) {
    EXPECT_EQ(found_in(open_weights(kGolden / file)), tensors) << file;
  }
}

TEST(WeightsFile, FindsTensorsByName) {
  const auto weights = open_weights(kGolden / "tied.pt");
  ASSERT_NE(weights.find("head.weight"), nullptr);
  EXPECT_EQ(weights.find("head.weight")->bytes.data(), weights.find("embed.weight")->bytes.data());
  EXPECT_EQ(weights.find("tail.weight"), nullptr);
}

TEST(WeightsFile, NamesWhatIsNoTensor) {
  EXPECT_EQ(open_weights(kGolden / "nested.pt").left_out(), (std::vector<std::string>{"epoch", "text"}));
}

TEST(WeightsFile, TakesOffAPrefixWhereTheNamesThenFit) {
  const std::vector<std::string> names = {"embed.weight", "norm.weight", "head.weight"};
  auto lightning = open_weights(kGolden / "lightning.ckpt");
  EXPECT_EQ(lightning.find("embed.weight"), nullptr);
  EXPECT_EQ(lightning.fit(names), "model.");
  EXPECT_NE(lightning.find("embed.weight"), nullptr);
  EXPECT_NE(lightning.find("norm.running_mean"), nullptr);
  EXPECT_EQ(lightning.find("model.embed.weight"), nullptr);

  auto plain = open_weights(kGolden / "tied.pt");
  EXPECT_EQ(plain.fit(names), "");
  EXPECT_NE(plain.find("embed.weight"), nullptr);
  auto nested = open_weights(kGolden / "nested.pt");
  EXPECT_EQ(nested.fit(std::vector<std::string>{"b"}), "encoder.0.");
}

TEST(WeightsFile, OpensARunAndASnapshot) {
  const testing::TemporaryFolder folder;
  const std::array<float, 2> numbers = {1, 2};
  for (const std::int64_t step : {3, 7}) {
    SnapshotWriter writer(folder.path() / "snapshots", step);
    const TensorEntry tensor{
        .name = "w" + std::to_string(step), .dtype = "F32", .shape = {2}, .bytes = std::as_bytes(std::span(numbers))};
    writer.add_tensors("model.safetensors", std::span(&tensor, 1));
    writer.commit();
  }
  EXPECT_NE(open_weights(folder.path()).find("w7"), nullptr);
  EXPECT_NE(open_weights(folder.path() / "snapshots").find("w7"), nullptr);
  EXPECT_NE(open_weights(folder.path() / "snapshots/step-0000000003").find("w3"), nullptr);
  std::ofstream(folder.path() / "snapshots/step-0000000007/MANIFEST") << "damaged";
  EXPECT_NE(open_weights(folder.path()).find("w3"), nullptr);
}

TEST(WeightsFile, SaysWhatItWasGiven) {
  const testing::TemporaryFolder folder;
  const auto refusal_of = [&](const std::string& content) {
    const fs::path path = folder.path() / "weights";
    std::ofstream(path, std::ios::binary) << content;
    return message_of(ErrorKind::kData, [&] { open_weights(path); });
  };
  EXPECT_HAS(refusal_of(""), "weights: the file is empty, want weights\n  hint: give a .safetensors file, a file of ");
  EXPECT_HAS(refusal_of("\x89HDF\r\n"), "it is an HDF5 file");
  EXPECT_HAS(refusal_of("\x80\x04N."), "it is a bare pickle");
  EXPECT_HAS(refusal_of("version https://git-lfs.github.com/spec/v1\n"), "fetch the file itself: git lfs pull");
  EXPECT_HAS(refusal_of("\x1f\x8b\x08"), "it is compressed by gzip");
  EXPECT_HAS(refusal_of("hello, world"), "its first bytes are those of no file of weights");
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { open_weights(folder.path()); }), "the folder holds none of model.saf");
  message_of(ErrorKind::kIo, [&] { open_weights(folder.path() / "nowhere"); });
}

TEST(WeightsFile, RefusesShardsThatLeadElsewhereOrLackATensor) {
  const testing::TemporaryFolder folder;
  fs::copy(kGolden / "shards", folder.path(), fs::copy_options::recursive);
  const fs::path index = folder.path() / "model.safetensors.index.json";
  const auto refusal_of = [&](const std::string& content) {
    std::ofstream(index) << content;
    return message_of(ErrorKind::kData, [&] { open_weights(folder.path()); });
  };
  EXPECT_HAS(refusal_of(R"({"weight_map": {"a": "../a.safetensors"}})"), "'../a.safetensors', want one in the same");
  EXPECT_HAS(refusal_of(R"({"weight_map": {"a": ".."}})"), "'..', want one in the same folder");
  EXPECT_HAS(refusal_of(R"({"weight_map": {"c": "model-00001-of-00002.safetensors"}})"),
             "it lacks 'c', which the index");
  EXPECT_HAS(refusal_of(R"({"weight_map": [1]})"), "it is no index of shards");
  EXPECT_HAS(refusal_of("{}"), "it is no index of shards");
  EXPECT_HAS(refusal_of(R"({"weight_map": {}})"), "it names no tensor");
}

TEST(TorchFile, RefusesAPickleThatCallsTheSystemAndRunsNothing) {
  EXPECT_HAS(refusal(text_of_file(kGolden / "evil.pt")), "it names 'posix.system', which is not among the names that ");
  EXPECT_FALSE(fs::exists("lockstep-ran-a-pickle"));
}

TEST(TorchFile, SaysWhatItDoesNotRead) {
  EXPECT_HAS(refusal(text_of_file(kGolden / "script.pt")),
             "it is a TorchScript module, want weights\n  hint: train it");
  EXPECT_HAS(refusal(text_of_file(kGolden / "list.pt")), "the file holds a list, want a dict of tensors");
  EXPECT_HAS(refusal(text_of_file(kGolden / "quantised.pt")),
             "tensor 'weight': is built by torch._utils._rebuild_qtensor, want a plain tensor");
}

// torch.load checks no checksum: of 300 files with one flipped bit it read all 300.
TEST(TorchFile, FindsEveryFlippedBitOfTheNumbers) {
  const std::string whole = text_of_file(kGolden / "tied.pt");
  const auto weights = parse_torch_file(std::as_bytes(std::span(whole)), "tied.pt");
  for (const auto& tensor : weights.tensors) {
    const auto at = reinterpret_cast<const char*>(tensor.bytes.data()) - whole.data();
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
      std::string damaged = whole;
      damaged[static_cast<std::size_t>(at) + i] ^= 0x10;
      EXPECT_HAS(refusal(damaged), "has the checksum ");
    }
  }
}

TEST(TorchFile, ReadsOrRefusesWhateverIsFlippedOrCut) {
  std::mt19937 random(7);
  for (const char* file : {"views.pt", "legacy.pt", "lightning.ckpt"}) {
    const std::string whole = text_of_file(kGolden / file);
    for (int i = 0; i < 3000; ++i) {
      std::string damaged = whole;
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << random() % 8);
      if (i % 3 == 0) damaged.resize(random() % damaged.size());
      try {
        parse_torch_file(std::as_bytes(std::span(damaged)), file);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
      }
    }
  }
}

TEST(TorchFile, RefusesLegacyFilesThatLie) {
  const std::string whole = text_of_file(kGolden / "legacy.pt");
  EXPECT_HAS(refusal(whole + "x"), "1 bytes follow the last storage");
  EXPECT_HAS(refusal(whole.substr(0, whole.size() - 1)),
             " has 3 numbers and 11 bytes follow, want 3 numbers in 12 bytes");
  EXPECT_HAS(refusal(with_byte(whole, "little_endianq\x02", 0, '\x89')), "its numbers are big-endian, want little");
  // The first tensor gets the shape [5, 3] from element 0 on, one row more than its storage has.
  EXPECT_HAS(
      refusal(with_byte(whole, std::string_view("q\x08QK\0K", 6), 0, 6)),
      "tensor 'embed.weight': [6, 3] with strides [3, 1] from 0 on reaches beyond the 15 numbers of its storage");
}

}  // namespace
}  // namespace lockstep
