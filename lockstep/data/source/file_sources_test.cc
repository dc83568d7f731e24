// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/source/cifar_source.h"
#include "lockstep/data/source/csv_source.h"
#include "lockstep/data/source/text_source.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

const std::filesystem::path kGolden = lockstep::testing::source_root() / "tests/golden";

class FileSources : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) const {
    make_folder((folder_.path() / name).parent_path());
    write_whole(folder_.path() / name, text, false);
    return folder_.path() / name;
  }
  /// Returns the error's message, with the test's folder replaced by DIR.
  template <typename Action>
  std::string refusal_of(ErrorKind kind, Action action) const {
    std::string text = message_of(kind, action);
    const std::string path = folder_.path().string();
    for (auto at = text.find(path); at != std::string::npos; at = text.find(path)) text.replace(at, path.size(), "DIR");
    return text;
  }

  TemporaryFolder folder_;
};

template <typename Input, typename Target>
struct Sample {
  std::vector<Input> input;
  std::vector<Target> target;
};

template <typename Input, typename Target>
Sample<Input, Target> sample_of(const SampleSource& source, const SampleKey& key) {
  Sample<Input, Target> sample;
  sample.input.resize(source.fields()[0].bytes() / sizeof(Input));
  sample.target.resize(source.fields()[1].bytes() / sizeof(Target));
  const std::vector<std::byte*> to{reinterpret_cast<std::byte*>(sample.input.data()),
                                   reinterpret_cast<std::byte*>(sample.target.data())};
  source.read(key, to);
  return sample;
}

std::string cifar_record(const std::string& labels, char first) {
  std::string pixels(kCifarImageBytes, '\0');
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<char>(first + static_cast<char>(i));
  return labels + pixels;
}

using FileSourcesCifar = FileSources;

TEST_F(FileSourcesCifar, ReadBinaryFilesInOrder) {
  for (char i = 1; i <= 5; ++i) {
    file("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin",
         cifar_record(std::string(1, i), i) + cifar_record("\t", 9));
  }
  file("cifar-10-batches-bin/test_batch.bin", cifar_record(std::string(1, '\0'), 77));
  const auto train = cifar_source(folder_.path(), CifarKind::k10, "train");
  EXPECT_EQ(train->size(), 10);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->name_of(5), "data_batch_3.bin #1");
  const auto sample = sample_of<std::uint8_t, std::int64_t>(*train, {.id = 4});
  EXPECT_EQ(sample.target[0], 3);
  EXPECT_EQ(sample.input[0], 3);
  EXPECT_EQ(sample.input[3071], static_cast<std::uint8_t>(3 + 3071));
  const auto validation = cifar_source(folder_.path() / "cifar-10-batches-bin", CifarKind::k10, "validation");
  EXPECT_EQ((sample_of<std::uint8_t, std::int64_t>(*validation, {.id = 0}).input[1]), 78);
}

TEST_F(FileSourcesCifar, ReadTheFineLabelOfTheTwo) {
  file("train.bin", cifar_record("\x13\x63", 5));
  const auto train = cifar_source(folder_.path(), CifarKind::k100, "train");
  EXPECT_EQ((sample_of<std::uint8_t, std::int64_t>(*train, {.id = 0}).target[0]), 99);
  EXPECT_EQ((sample_of<std::uint8_t, std::int64_t>(*train, {.id = 0}).input[0]), 5);
}

TEST_F(FileSourcesCifar, ReadThePicklesThatTorchvisionLeaves) {
  const auto train = cifar_source(kGolden / "cifar", CifarKind::k100, "train");
  ASSERT_EQ(train->size(), 3);
  const auto sample = sample_of<std::uint8_t, std::int64_t>(*train, {.id = 2});
  EXPECT_EQ(sample.target[0], 42);
  EXPECT_EQ(sample.input[5], 2 * 7 + 5);
  EXPECT_EQ(cifar_source(kGolden / "cifar/cifar-100-python", CifarKind::k100, "validation")->size(), 2);
}

TEST_F(FileSourcesCifar, SayWhatIsWrong) {
  const auto refused = [&](CifarKind kind) {
    return refusal_of(ErrorKind::kData, [&] { cifar_source(folder_.path(), kind, "train"); });
  };
  EXPECT_HAS(
      refused(CifarKind::k10),
      "DIR: neither data_batch_1.bin nor data_batch_1 is there, nor in cifar-10-batches-bin or cifar-10-batches-py");
  file("data_batch_1.bin", cifar_record("\1", 0) + "x");
  EXPECT_HAS(refused(CifarKind::k10),
             "DIR/data_batch_1.bin: the file holds 3074 bytes, want a multiple of the 3073 of one image of CIFAR-10");
  file("data_batch_1.bin", cifar_record("\1", 0) + cifar_record("\x0a", 0));
  EXPECT_HAS(refused(CifarKind::k10), "DIR/data_batch_1.bin: label #1 is 10, want 0 to 9");
  file("data_batch_1.bin", cifar_record("\1", 0));
  EXPECT_HAS(refused(CifarKind::k10), "DIR/data_batch_2.bin: no such file, but others of the same split are there");
  file("train.bin", cifar_record("\x14\x01", 0));
  EXPECT_HAS(refused(CifarKind::k100), "DIR/train.bin: label #0 is 20, want 0 to 19");
  std::filesystem::remove(folder_.path() / "train.bin");
  file("train", "\x80\x02}q\x01.");
  EXPECT_HAS(refused(CifarKind::k100), "DIR/train: no 'data' in the pickle, which is a dict");
}

using FileSourcesText = FileSources;

TEST_F(FileSourcesText, JoinFilesByNameEachOnce) {
  file("b", "world");
  file("a", "hello");
  file("sub/c", "!");
  std::filesystem::create_symlink("a", folder_.path() / "another");
  const auto source = text_source(folder_.path(), {.window = 4, .share = 1e-9});
  EXPECT_EQ(source->size(), 3);  // "hell" "o\0wo" "rld\0", and what is left: "!"
  EXPECT_EQ(source->classes(), kTextVocabulary);
  const auto second = sample_of<std::int64_t, std::int64_t>(*source, {.id = 1});
  const std::vector<std::int64_t> wanted{'o', 0, 'w', 'o'};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(second.target[i] == kNotMasked ? second.input[i] : second.target[i], wanted[i]) << i;
  }
  EXPECT_EQ(source->name_of(2), (folder_.path() / "b").string() + " from byte 2 on");
}

TEST_F(FileSourcesText, AreMaskedAsBertDoes) {
  file("text", std::string(100'000, 'x'));
  const auto source = text_source(folder_.path() / "text", {.window = 100});
  std::map<std::string, double> seen;
  for (std::int64_t id = 0; id < source->size(); ++id) {
    const auto sample = sample_of<std::int64_t, std::int64_t>(*source, {.seed = 1, .epoch = 2, .id = id});
    for (std::size_t i = 0; i < 100; ++i) {
      const bool is_masked = sample.target[i] != kNotMasked;
      ASSERT_EQ(sample.target[i], is_masked ? 'x' : kNotMasked);
      ASSERT_TRUE(sample.input[i] >= 0 && sample.input[i] <= kMaskId);
      ASSERT_TRUE(is_masked || sample.input[i] == 'x');
      ++seen[!is_masked ? "kept" : sample.input[i] == kMaskId ? "mask" : sample.input[i] == 'x' ? "same" : "random"];
    }
  }
  EXPECT_NEAR(seen["mask"], 12'000, 400);
  EXPECT_NEAR(seen["same"], 1'500, 150);
  EXPECT_NEAR(seen["random"], 1'500, 150);
  const auto one = sample_of<std::int64_t, std::int64_t>(*source, {.seed = 1, .epoch = 2, .id = 3});
  EXPECT_EQ((sample_of<std::int64_t, std::int64_t>(*source, {.seed = 1, .epoch = 2, .id = 3}).input), one.input);
  EXPECT_NE((sample_of<std::int64_t, std::int64_t>(*source, {.seed = 1, .epoch = 3, .id = 3}).input), one.input);
}

TEST_F(FileSourcesText, AlwaysHaveATarget) {
  file("text", std::string(500, 'x'));
  const auto source = text_source(folder_.path() / "text", {.window = 5, .share = 0.001});
  for (std::int64_t id = 0; id < source->size(); ++id) {
    const auto sample = sample_of<std::int64_t, std::int64_t>(*source, {.id = id});
    EXPECT_TRUE(std::ranges::any_of(sample.target, [](std::int64_t target) { return target == 'x'; }));
  }
}

TEST_F(FileSourcesText, SayWhatIsWrong) {
  const auto text = file("text", "abc");
  EXPECT_HAS(refusal_of(ErrorKind::kData, [&] { text_source(text, {.window = 4}); }),
             "DIR/text: 3 bytes of text, want at least the 4 of one window");
  EXPECT_HAS(refusal_of(ErrorKind::kData, [&] { text_source(folder_.path() / "no", {}); }),
             "DIR/no: no such file or folder");
  EXPECT_HAS(refusal_of(ErrorKind::kRecipe, [&] { text_source(text, {.window = 0}); }),
             "data.window is 0, want 1 to 1048576 bytes");
  EXPECT_HAS(refusal_of(ErrorKind::kRecipe, [&] { text_source(text, {.share = 0}); }),
             "the share of masked bytes is 0");
}

using FileSourcesCsv = FileSources;

TEST_F(FileSourcesCsv, ReadNumbersAndClasses) {
  const auto path = file("train.csv",
                         "\xef\xbb\xbf"
                         "a,kind,\"b, quoted\"\r\n1,bee,10\r\n\r\n3,ant,30\r\n\"5\",\"b\"\"ee\",50\r\n");
  const CsvTable table = csv_table(path, {.label = "kind", .is_standardised = false});
  EXPECT_EQ(table.columns.names, (std::vector<std::string>{"a", "b, quoted"}));
  EXPECT_EQ(table.columns.classes, (std::vector<std::string>{"ant", "b\"ee", "bee"}));
  EXPECT_EQ(table.source->classes(), 3);
  const auto last = sample_of<float, std::int64_t>(*table.source, {.id = 2});
  EXPECT_EQ(last.input, (std::vector<float>{5, 50}));
  EXPECT_EQ(last.target[0], 1);
  EXPECT_HAS(table.source->name_of(2), "train.csv line 5");
}

TEST_F(FileSourcesCsv, StandardiseByTheTrainingTable) {
  const auto train = file("train.csv", "x;y;z\n1;7;10\n3;7;2\n");
  const auto validation = file("val.csv", "z;y;x\n10;7;5\n");
  const CsvTable table = csv_table(train, {});
  EXPECT_EQ(table.columns.classes, (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ((sample_of<float, std::int64_t>(*table.source, {.id = 0}).input), (std::vector<float>{-1, 0}));
  const CsvTable other = csv_table(validation, {}, &table.columns);
  const auto sample = sample_of<float, std::int64_t>(*other.source, {.id = 0});
  EXPECT_EQ(sample.input, (std::vector<float>{3, 0}));
  EXPECT_EQ(sample.target[0], 1);
}

TEST_F(FileSourcesCsv, GiveANumberAsTarget) {
  const auto path = file("t.csv", "x\ty\n1\t-2.5\n");
  const CsvTable table = csv_table(path, {.is_regression = true});
  EXPECT_EQ(table.source->classes(), 0);
  EXPECT_EQ((sample_of<float, float>(*table.source, {.id = 0}).target), (std::vector<float>{-2.5F}));
}

TEST_F(FileSourcesCsv, SayWhatIsWrong) {
  const auto refused = [&](const std::string& text, const CsvOptions& options = {}) {
    const auto path = file("t.csv", text);
    return refusal_of(ErrorKind::kData, [&] { csv_table(path, options); });
  };
  EXPECT_HAS(refused(""), "DIR/t.csv: the file is empty, want a line that names the columns");
  EXPECT_HAS(refused("a,b\n"), "DIR/t.csv: no rows below the first line");
  EXPECT_HAS(refused("a\n1\n"), "DIR/t.csv: one column, want at least one of numbers and one of targets");
  EXPECT_HAS(refused("a,b\n1,2\n\n3\n"), "DIR/t.csv: line 4: 1 fields, want 2");
  EXPECT_HAS(refused("a,b\n1,2\nx,2\n"), "DIR/t.csv: line 3: column 'a' is 'x', want a number");
  EXPECT_HAS(refused("a,b\n1,\"2\n"), "DIR/t.csv: line 2: a quote is not closed");
  EXPECT_EQ(refused("a,kind\n1,2\n", {.label = "kinds"}),
            "DIR/t.csv: no column 'kinds', the first line has a, kind\n  hint: is it 'kind'?");
  EXPECT_HAS(refused("a,b\n1,x\n", {.is_regression = true}), "DIR/t.csv: line 2: column 'b' is 'x', want a number");
  const CsvTable train = csv_table(file("train.csv", "a,b\n1,x\n"), {});
  const auto validation = file("val.csv", "a,b\n1,y\n");
  EXPECT_HAS(refusal_of(ErrorKind::kData, [&] { csv_table(validation, {}, &train.columns); }),
             "DIR/val.csv: line 2: column 'b' is 'y', a class that training lacks; it has x");
}

}  // namespace
}  // namespace lockstep
