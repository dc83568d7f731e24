// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/sources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/source/idx_source.h"
#include "lockstep/data/source/synthetic_source.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

const std::filesystem::path kRoot = lockstep::testing::source_root();

std::string idx_text(const std::vector<std::uint32_t>& shape, const std::string& bytes) {
  std::string text{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(size >> shift & 0xffU));
  }
  return text + bytes;
}

class SourceFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("lockstep-" + std::string(test->name()) + "-" + std::to_string(::getpid()));
    make_folder(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& name, const std::string& text) const {
    write_whole(folder_ / name, text, false);
    return folder_ / name;
  }

  std::string error_text(ErrorKind kind, const std::function<void()>& call) const {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      std::string text = error.what();
      for (auto at = text.find(folder_.string()); at != std::string::npos; at = text.find(folder_.string())) {
        text.replace(at, folder_.string().size(), "DIR");
      }
      return text;
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

using IdxSourceTest = SourceFiles;
using SplitTest = SourceFiles;
using SyntheticTest = SourceFiles;

std::pair<std::vector<std::uint8_t>, std::int64_t> image_and_label(const SampleSource& source, std::int64_t id) {
  std::vector<std::uint8_t> image(source.fields()[0].bytes());
  std::int64_t label = -1;
  const std::array<std::byte*, 2> to = {reinterpret_cast<std::byte*>(image.data()),
                                        reinterpret_cast<std::byte*>(&label)};
  source.read({.id = id}, to);
  return {image, label};
}

TEST_F(IdxSourceTest, ReadsImagesAndLabels) {
  const auto source = idx_source(file("images", idx_text({2, 1, 3}, "abcdef")),
                                 file("labels", idx_text({2}, std::string("\x04\x01", 2))));
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->classes(), 5);
  EXPECT_TRUE(source->is_in_memory());
  EXPECT_EQ(source->name_of(1), "images #1");
  EXPECT_EQ(source->fields()[0].name, "input");
  EXPECT_EQ(source->fields()[0].dtype, "U8");
  EXPECT_EQ(source->fields()[0].shape, (std::vector<std::int64_t>{1, 1, 3}));
  EXPECT_EQ(source->fields()[1].name, "target");
  EXPECT_EQ(source->fields()[1].dtype, "I64");
  EXPECT_TRUE(source->fields()[1].shape.empty());
  EXPECT_EQ(source->fields()[1].bytes(), 8U);
  const auto [image, label] = image_and_label(*source, 1);
  EXPECT_EQ(image, (std::vector<std::uint8_t>{'d', 'e', 'f'}));
  EXPECT_EQ(label, 1);
}

TEST_F(IdxSourceTest, ReadsTheDigitsThatAreShipped) {
  const auto train = idx_folder_source(kRoot / "datasets/digits", "train");
  const auto validation = idx_folder_source(kRoot / "datasets/digits", "validation", train->classes());
  EXPECT_EQ(train->size(), 1437);
  EXPECT_EQ(validation->size(), 360);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->fields()[0].shape, (std::vector<std::int64_t>{1, 8, 8}));
  EXPECT_EQ(validation->name_of(17), "t10k-images-idx3-ubyte.gz #17");
  std::array<int, 10> of_class{};
  std::uint8_t brightest = 0;
  for (std::int64_t id = 0; id < train->size(); ++id) {
    const auto [image, label] = image_and_label(*train, id);
    ++of_class[static_cast<std::size_t>(label)];
    brightest = std::max(brightest, std::ranges::max(image));
  }
  EXPECT_EQ(of_class, (std::array<int, 10>{143, 145, 142, 146, 145, 146, 144, 143, 140, 143}));
  EXPECT_EQ(brightest, 255);
}

TEST_F(IdxSourceTest, NamesThePlaceAndTheValueOfALabelOutOfRange) {
  const auto images = file("images", idx_text({3, 1, 1}, "abc"));
  const auto labels = file("labels", idx_text({3}, std::string("\x00\x0b\x0c", 3)));
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_source(images, labels, 10); }),
            "DIR/labels: label #1 is 11, want 0 to 9\n"
            "  hint: the data set has 10 classes; is this file of another one?");
}

TEST_F(IdxSourceTest, RefusesNumbersOfImagesAndLabelsThatDiffer) {
  const auto images = file("images", idx_text({3, 1, 1}, "abc"));
  const auto labels = file("labels", idx_text({2}, "ab"));
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_source(images, labels); }),
            "DIR/labels: 2 labels for the 3 images of DIR/images, want as many\n"
            "  hint: take both files from the same split of the same data set");
}

TEST_F(IdxSourceTest, RefusesAnEmptyDataSet) {
  const auto images = file("images", idx_text({0, 8, 8}, ""));
  const auto labels = file("labels", idx_text({0}, ""));
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_source(images, labels); }),
            "DIR/images: no images, want at least one\n  hint: look at data.path");
}

TEST_F(IdxSourceTest, RefusesImagesAndLabelsThatAreSwapped) {
  const auto images = file("images", idx_text({1, 1, 1}, "a"));
  const auto labels = file("labels", idx_text({1}, "a"));
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_source(labels, images); }),
            "DIR/labels: the array is [1], want [N, rows, columns]\n  hint: are images and labels swapped?");
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_source(images, images); }),
            "DIR/images: the array is [1, 1, 1], want [N]\n  hint: are images and labels swapped?");
  const auto no_pixels = file("no-pixels", idx_text({1, 0, 8}, ""));
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_source(no_pixels, labels); }),
            "DIR/no-pixels: images of no pixels: [1, 0, 8]");
}

TEST_F(IdxSourceTest, TellsHowToGetDataWhereThereIsNone) {
  const std::string way_out =
      "\n  hint: data.path wants a folder of IDX files: datasets/digits comes with Lockstep; MNIST's four files are at "
      "https://ossci-datasets.s3.amazonaws.com/mnist/";
  EXPECT_FALSE(has_idx_split(folder_, "train"));
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_folder_source(folder_, "train"); }),
            "DIR: neither train-images-idx3-ubyte nor train-labels-idx1-ubyte is there, with or without .gz" + way_out);
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_folder_source(folder_ / "no", "train"); }),
            "DIR/no: no such folder" + way_out);
}

TEST_F(IdxSourceTest, RefusesASplitOfWhichOneFileIsMissing) {
  file("t10k-images-idx3-ubyte", idx_text({1, 1, 1}, "a"));
  EXPECT_FALSE(has_idx_split(folder_, "train"));
  EXPECT_TRUE(has_idx_split(folder_, "validation"));
  EXPECT_EQ(error_text(ErrorKind::kData, [&] { idx_folder_source(folder_, "validation"); }),
            "DIR: t10k-images-idx3-ubyte is there, but no t10k-labels-idx1-ubyte, with or without .gz\n"
            "  hint: put both files of the split into the folder");
}

TEST_F(IdxSourceTest, RefusesASplitOfAnotherName) {
  EXPECT_EQ(error_text(ErrorKind::kUsage, [&] { has_idx_split(folder_, "test"); }),
            "split is 'test', want 'train' or 'validation'");
}

std::vector<float> synthetic_input(const SampleSource& source, std::int64_t id, std::int64_t epoch = 0) {
  std::vector<float> input(source.fields()[0].bytes() / sizeof(float));
  std::int64_t label = -1;
  const std::array<std::byte*, 2> to = {reinterpret_cast<std::byte*>(input.data()),
                                        reinterpret_cast<std::byte*>(&label)};
  source.read({.seed = 99, .epoch = epoch, .id = id}, to);
  EXPECT_EQ(label, id % source.classes());
  return input;
}

TEST_F(SyntheticTest, IsAFunctionOfSeedAndIdAlone) {
  const auto one = synthetic_source({.shape = {3, 4}, .seed = 5});
  const auto same = synthetic_source({.shape = {3, 4}, .seed = 5});
  const auto other = synthetic_source({.shape = {3, 4}, .seed = 6});
  EXPECT_EQ(synthetic_input(*one, 7), synthetic_input(*same, 7, 3));
  EXPECT_NE(synthetic_input(*one, 7), synthetic_input(*other, 7));
  EXPECT_NE(synthetic_input(*one, 7), synthetic_input(*one, 9));
}

TEST_F(SyntheticTest, HasThePythonReferencesNumbersBitForBit) {
  const auto rows = nlohmann::json::parse(text_of_file(kRoot / "tests/golden/synthetic.json"));
  ASSERT_EQ(rows.size(), 5U);
  for (const auto& row : rows) {
    const auto source = synthetic_source({.samples = 2'000'000,
                                          .classes = row.at("classes"),
                                          .shape = row.at("shape").get<std::vector<std::int64_t>>(),
                                          .seed = row.at("seed")});
    EXPECT_EQ(synthetic_input(*source, row.at("sample")), row.at("input").get<std::vector<float>>()) << row;
  }
}

/// Returns the share of samples that are nearer to the mean of their own class than to that of any other class.
double share_nearest_to_own(const SampleSource& source) {
  const std::size_t numbers = source.fields()[0].bytes() / sizeof(float);
  const auto classes = static_cast<std::size_t>(source.classes());
  std::vector<std::vector<double>> means(classes, std::vector<double>(numbers));
  for (std::int64_t id = 0; id < source.size(); ++id) {
    const auto input = synthetic_input(source, id);
    for (std::size_t i = 0; i < numbers; ++i) {
      means[static_cast<std::size_t>(id) % classes][i] +=
          input[i] * static_cast<double>(classes) / static_cast<double>(source.size());
    }
  }
  int right = 0;
  for (std::int64_t id = 0; id < source.size(); ++id) {
    const auto input = synthetic_input(source, id);
    std::vector<double> distances;
    for (const auto& mean : means) {
      double sum = 0;
      for (std::size_t i = 0; i < numbers; ++i) sum += (input[i] - mean[i]) * (input[i] - mean[i]);
      distances.push_back(sum);
    }
    const auto nearest = std::ranges::min_element(distances) - distances.begin();
    if (nearest == id % source.classes()) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(source.size());
}

TEST_F(SyntheticTest, KeepsItsClassesApart) {
  EXPECT_GT(share_nearest_to_own(*synthetic_source({.samples = 1000, .classes = 2, .shape = {2}})), 0.999);
  EXPECT_GT(share_nearest_to_own(*synthetic_source({.samples = 1000, .classes = 10, .shape = {2}})), 0.999);
  EXPECT_GT(share_nearest_to_own(*synthetic_source({.samples = 1000, .classes = 10, .shape = {1, 8, 8}})), 0.999);
  EXPECT_GT(share_nearest_to_own(*synthetic_source({.samples = 1000, .classes = 25, .shape = {1}})), 0.999);
}

TEST_F(SyntheticTest, HasBellShapedNoise) {
  const auto source = synthetic_source({.samples = 1, .classes = 1, .shape = {100'000}});
  const auto input = synthetic_input(*source, 0);
  double sum = 0;
  double squares = 0;
  int within_one_deviation = 0;
  for (const float value : input) {
    const double noise = std::abs(value) - 1;
    sum += noise;
    squares += noise * noise;
    if (std::abs(noise) < 0.2887) ++within_one_deviation;
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.004);
  EXPECT_NEAR(std::sqrt(squares / 1e5), 0.2887, 0.003);
  EXPECT_NEAR(within_one_deviation / 1e5, 0.67, 0.02);
}

TEST_F(SyntheticTest, RefusesOptionsOutOfRange) {
  EXPECT_EQ(error_text(ErrorKind::kRecipe, [] { synthetic_source({.samples = 0}); }),
            "data.samples is 0, want 1 or more");
  EXPECT_EQ(error_text(ErrorKind::kRecipe, [] { synthetic_source({.classes = 0}); }),
            "data.classes is 0, want 1 to 1000000");
  EXPECT_EQ(error_text(ErrorKind::kRecipe,
                       [] {
                         synthetic_source({.shape = {3, 0}});
                       }),
            "data.shape has the size 0, want 1 or more, and at most 268435456 numbers a sample");
  EXPECT_NE(error_text(ErrorKind::kRecipe, [] { synthetic_source({.shape = {1 << 20, 1 << 20}}); }), "no error");
}

TEST_F(SplitTest, DrawsTheIdsOfThePythonReference) {
  const auto splits = nlohmann::json::parse(text_of_file(kRoot / "tests/golden/epoch_order.json")).at("splits");
  ASSERT_EQ(splits.size(), 2U);
  for (const auto& row : splits) {
    const Split split = drawn_split(row.at("size"), row.at("held_out"), row.at("seed"));
    EXPECT_EQ(split.validation, row.at("validation").get<std::vector<std::int64_t>>());
  }
}

TEST_F(SplitTest, PutsEachSampleInOnePart) {
  for (const double held_out : {0.1, 0.5, 0.99, 1.0, 37.0, 99.0}) {
    const Split split = drawn_split(100, held_out, 4);
    std::vector<std::int64_t> all = split.train;
    all.insert(all.end(), split.validation.begin(), split.validation.end());
    EXPECT_TRUE(std::ranges::is_sorted(split.train));
    EXPECT_TRUE(std::ranges::is_sorted(split.validation));
    std::ranges::sort(all);
    std::vector<std::int64_t> wanted(100);
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_EQ(all, wanted) << held_out;
  }
  EXPECT_EQ(drawn_split(10'000, 1000, 0).validation.size(), 1000U);
  EXPECT_EQ(drawn_split(15, 0.1, 0).validation.size(), 2U) << "1.5 is rounded";
}

TEST_F(SplitTest, RefusesAPartWithoutSamples) {
  const auto refused = [this](std::int64_t samples, double held_out) {
    return error_text(ErrorKind::kRecipe, [=] { drawn_split(samples, held_out, 0); });
  };
  EXPECT_EQ(refused(4, 0.1),
            "data.split is 0.1, which leaves none of the 4 samples for validation, want at least one in each part");
  EXPECT_EQ(refused(1000, 1000),
            "data.split is 1000, which leaves all of the 1000 samples for validation, want at least one in each part");
  EXPECT_EQ(refused(10, 1.5),
            "data.split is 1.5, want a share below 1 or a whole number of samples\n"
            "  hint: 0.1 holds out a tenth for validation, 1000 a thousand samples");
  for (const double wrong : {0.0, -1.0, std::nan(""), 1e300}) EXPECT_NE(refused(10, wrong), "no error") << wrong;
}

TEST_F(SplitTest, ASubsetSpeaksOfTheSourcesSamples) {
  const std::shared_ptr<const SampleSource> source = synthetic_source({.samples = 10, .classes = 3});
  const auto part = subset(source, {9, 4});
  EXPECT_EQ(part->size(), 2);
  EXPECT_EQ(part->classes(), 3);
  EXPECT_EQ(part->name_of(0), "synthetic sample #9");
  EXPECT_EQ(image_and_label(*part, 1), image_and_label(*source, 4));
  EXPECT_EQ(error_text(ErrorKind::kUsage,
                       [&] {
                         subset(source, {3, 10});
                       }),
            "a subset asks for sample 10 of 10, want 0 or more and less than that");
}

}  // namespace
}  // namespace lockstep
