// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/data_sets.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/batch_reader.h"
#include "lockstep/data/source/convert.h"
#include "lockstep/data/source/sources.h"
#include "lockstep/data/source/verify.h"
#include "lockstep/format/hdf5/hdf5.h"
#include "tests/support/golden_images.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::golden_path;
using testing::message_of;
using testing::TemporaryFolder;

using List = std::vector<std::string>;

class DataSetsOnDisk : public ::testing::Test {
 protected:
  void add(const std::string& name, const std::string& text) const {
    make_folder((folder_.path() / name).parent_path());
    write_whole(folder_.path() / name, text, false);
  }
  void add_images() const {
    for (const char* name : {"train/ants/1.jpg", "train/ants/2.jpg", "train/bees/1.jpg", "train/bees/2.jpg",
                             "val/bees/1.jpg", "test/ants/1.jpg"}) {
      add(name, text_of_file(golden_path("420.jpg")));
    }
    add("train/bees/none.gif", "GIF89a");
  }
  DataSettings settings(const std::string& kind) const { return {.kind = kind, .path = folder_.path()}; }

  TemporaryFolder folder_;
};

std::int64_t label_of(const SampleSource& source, std::int64_t id) {
  std::vector<std::byte> input(source.fields()[0].bytes());
  std::int64_t label = -1;
  source.read({.id = id}, std::vector<std::byte*>{input.data(), reinterpret_cast<std::byte*>(&label)});
  return label;
}

TEST_F(DataSetsOnDisk, OfFoldersHaveBothPartsAndANote) {
  add_images();
  DataSettings asked = settings("folder");
  asked.transforms = List{"random_resized_crop(16)", "flip", "normalize(imagenet)", "mixup(0.2)"};
  const DataSets sets = open_data_sets(asked);
  EXPECT_EQ(sets.train->size(), 4);
  ASSERT_TRUE(sets.validation);
  EXPECT_EQ(sets.validation->size(), 1);
  EXPECT_EQ(label_of(*sets.validation, 0), 1);
  EXPECT_EQ(sets.class_names, (List{"ants", "bees"}));
  EXPECT_EQ(sets.normalisation->std.at(0), 0.229F);
  EXPECT_EQ(sets.mixing.mixup_alpha, 0.2);
  ASSERT_EQ(sets.notes.size(), 1U);
  EXPECT_HAS(sets.notes[0], "train: 1 file is no image and left out: 'bees/none.gif'");
  EXPECT_EQ(label_of(*open_split(asked, "test"), 0), 0);
  EXPECT_EQ(open_split(asked, "train")->size(), 4);
}

TEST_F(DataSetsOnDisk, WithoutAValidationPartAreSplitBySeed) {
  for (const char* name : {"ants/1.jpg", "ants/2.jpg", "ants/3.jpg", "bees/1.jpg", "bees/2.jpg"})
    add(name, text_of_file(golden_path("420.jpg")));
  DataSettings asked = settings("folder");
  asked.transforms = List{"random_resized_crop(16)"};
  EXPECT_FALSE(open_data_sets(asked).validation);
  asked.split = 2;
  const DataSets sets = open_data_sets(asked);
  EXPECT_EQ(sets.train->size(), 3);
  EXPECT_EQ(sets.validation->size(), 2);
  EXPECT_EQ(open_split(asked, "train")->size(), 3);
  EXPECT_EQ(open_split(asked, "validation")->name_of(0), sets.validation->name_of(0));
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { open_split(asked, "test"); }), "no test part in it");
}

TEST_F(DataSetsOnDisk, OfTablesShareTheTrainingTablesScale) {
  add("train.csv", "x,y\n1,a\n3,b\n");
  add("val.csv", "x,y\n5,b\n");
  const DataSets sets = open_data_sets(settings("csv"));
  EXPECT_EQ(sets.train->size(), 2);
  EXPECT_EQ(label_of(*sets.validation, 0), 1);
  EXPECT_EQ(sets.class_names, (List{"a", "b"}));
}

// The fault: columns were scaled by the mean of the whole table, so the validation rows influenced training.
TEST_F(DataSetsOnDisk, OfTablesAreScaledByTheRowsThatAreTrainedOn) {
  std::string text = "x,y\n";
  for (int row = 0; row < 10; ++row) text += std::to_string(row * row) + (row % 2 == 0 ? ",a\n" : ",b\n");
  add("table.csv", text);
  DataSettings asked = settings("csv");
  asked.path = folder_.path() / "table.csv";
  asked.split = 3;
  asked.seed = 7;
  const DataSets sets = open_data_sets(asked);
  double mean = 0;
  for (const std::int64_t row : drawn_split(10, 3, 7).train) mean += static_cast<double>(row * row) / 7;
  EXPECT_FLOAT_EQ(sets.schema.columns->mean.at(0), static_cast<float>(mean));
  double sum = 0;
  for (std::int64_t id = 0; id < sets.train->size(); ++id) {
    float input = 0;
    std::int64_t label = 0;
    sets.train->read({.id = id}, std::vector<std::byte*>{reinterpret_cast<std::byte*>(&input),
                                                         reinterpret_cast<std::byte*>(&label)});
    sum += input;
  }
  EXPECT_NEAR(sum, 0, 1e-5);
  const DataSets again = open_for_model(asked, sets.schema, {.split = "validation", .is_new = false});
  EXPECT_EQ(again.validation->name_of(0), sets.validation->name_of(0));
  EXPECT_EQ(open_split(asked, "validation")->size(), 3);
  asked.split.reset();
  EXPECT_FLOAT_EQ(open_data_sets(asked).schema.columns->mean.at(0), 28.5F);
}

TEST_F(DataSetsOnDisk, ATableTooSmallToBeSplitCanBeLookedAtWhole) {
  add("table.csv", "x,y\n1,a\n3,b\n");
  DataSettings asked = settings("csv");
  asked.path = folder_.path() / "table.csv";
  asked.split = 0.1;
  EXPECT_EQ(raw_part(asked, "train")->samples->size(), 2);
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { open_data_sets(asked); }), "which leaves none of the 2 samples");
}

TEST_F(DataSetsOnDisk, OfTextMayHaveFoldersForTheParts) {
  add("train/a", std::string(300, 'x'));
  add("val/b", std::string(200, 'y'));
  const DataSets sets = open_data_sets(settings("text"));
  EXPECT_EQ(sets.train->size(), 2);
  EXPECT_EQ(sets.validation->size(), 1);
}

TEST_F(DataSetsOnDisk, OfHdf5MayBeOneFileOrOneForEachPart) {
  if (!has_hdf5()) GTEST_SKIP() << "this build is without HDF5";
  add_images();
  const FolderIndex train = folder_index(folder_.path() / "train");
  const FolderIndex val = folder_index(folder_.path() / "val", train.classes);
  convert_folders({{"train", train}, {"val", val}}, folder_.path() / "set.h5",
                  [](const ConvertProgress&) { return true; });
  DataSettings asked = settings("hdf5");
  asked.path = folder_.path() / "set.h5";
  asked.transforms = List{"resize(16, 16)"};
  const DataSets sets = open_data_sets(asked);
  EXPECT_EQ(sets.train->size(), 4);
  EXPECT_EQ(label_of(*sets.validation, 0), 1);
  EXPECT_EQ(sets.class_names, (List{"ants", "bees"}));

  const auto golden = golden_path("../hdf5/arrays.h5");
  const DataSettings arrays{.kind = "hdf5", .path = golden};
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { open_data_sets(arrays); }),
             "no group '/train' and no arrays; it holds big_endian, chunked");
}

TEST_F(DataSetsOnDisk, SayWhatDoesNotFit) {
  add_images();
  DataSettings asked = settings("foldr");
  const auto refused = [&] { return message_of(ErrorKind::kRecipe, [&] { open_data_sets(asked); }); };
  EXPECT_EQ(refused(),
            "data.kind is 'foldr', want one of: idx, folder, cifar10, cifar100, hdf5, text, csv, python\n  hint: is it "
            "'folder'?");
  asked.kind = "folder";
  EXPECT_HAS(refused(), "the transforms leave images at different sizes, want one size for a batch");
  asked.transforms = List{"resize(16, 16)", "normalize(imagenet)"};
  asked.eval_transforms = List{"random_resized_crop(16)"};
  EXPECT_HAS(refused(), "data.eval_transforms has a random transform, want the same pixels each time");
  asked.eval_transforms = List{"resize(16, 16)", "normalize(cifar10)"};
  EXPECT_HAS(refused(), "data.eval_transforms normalises otherwise than data.transforms");
  asked.kind = "text";
  EXPECT_HAS(refused(), "data.transforms is set for data.kind = 'text', want it for images only");
}

/// Returns a sum over (sample, pixels, label) of an epoch that does not depend on the order. `shards` ranks with
/// `workers` threads each read the samples.
std::uint64_t digest_of(const SampleSource& source, int shards, int workers, std::int64_t epoch) {
  const std::size_t pixels = source.fields()[0].bytes();
  std::uint64_t digest = 0;
  for (int shard = 0; shard < shards; ++shard) {
    BatchReader loader(
        source, {.global_batch = 6, .shard = {shard, shards}, .seed = 5, .workers = workers},
        [&](std::int64_t samples) {
          auto memory = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(samples) * (pixels + 8));
          return BatchMemory{.fields = {memory->data(), memory->data() + static_cast<std::size_t>(samples) * pixels},
                             .owner = memory};
        });
    loader.seek(epoch, 0);
    while (const auto batch = loader.next()) {
      for (std::size_t row = 0; row < batch->ids.size(); ++row) {
        const std::uint64_t image = xxh3_64(std::span(batch->memory.fields[0] + row * pixels, pixels));
        const std::uint64_t label = xxh3_64(std::span(batch->memory.fields[1] + row * 8, 8));
        digest += mixed(mixed(static_cast<std::uint64_t>(batch->ids[row]), image), label);
      }
    }
  }
  return digest;
}

TEST_F(DataSetsOnDisk, OfIdxFilesTakeTransformsToo) {
  DataSettings asked{.kind = "idx", .path = golden_path("../../../datasets/digits")};
  asked.transforms = List{"random_crop(8, padding=1)", "normalize(mnist)"};
  const DataSets sets = open_data_sets(asked);
  EXPECT_EQ(sets.train->size(), 1437);
  EXPECT_EQ(sets.validation->size(), 360);
  EXPECT_EQ(sets.train->fields()[0].shape, (std::vector<std::int64_t>{1, 8, 8}));
  EXPECT_TRUE(sets.train->is_in_memory());
  EXPECT_EQ(sets.normalisation->mean, std::vector<float>{0.1307F});
}

TEST_F(DataSetsOnDisk, GiveTheSamePixelsToAnyRanksAndWorkers) {
  const std::vector<const char*> images{"420.jpg", "444.jpg", "rgb.png", "grey.jpg", "progressive.jpg", "palette.png"};
  for (int i = 0; i < 17; ++i) {
    add((i % 2 == 0 ? "ants/" : "bees/") + std::to_string(i),
        text_of_file(golden_path(images[static_cast<std::size_t>(i) % images.size()])));
  }
  DataSettings asked = settings("folder");
  asked.transforms =
      List{"random_resized_crop(16)", "flip", "color_jitter(0.4, 0.4, 0.4, 0.1)", "random_crop(16, padding=2)"};
  const auto train = open_data_sets(asked).train;
  const std::uint64_t wanted = digest_of(*train, 1, 0, 0);
  for (int shards = 1; shards <= 4; ++shards) {
    for (int workers = 0; workers <= 3; ++workers)
      EXPECT_EQ(digest_of(*train, shards, workers, 0), wanted) << shards << " " << workers;
  }
  EXPECT_NE(digest_of(*train, 1, 0, 1), wanted);
}

TEST_F(DataSetsOnDisk, NameTheirBadSamples) {
  add_images();
  const std::string image = text_of_file(golden_path("420.jpg"));
  add("train/bees/cut.jpg", image.substr(0, 1500));
  add("train/ants/0.jpg", image.substr(0, 700));
  DataSettings asked = settings("folder");
  asked.transforms = List{"resize(16, 16)"};
  const auto train = open_split(asked, "train");
  for (const int threads : {1, 3}) {
    std::int64_t last = 0;
    const auto bad = bad_samples(*train, threads, [&](std::int64_t done) { last = done; });
    EXPECT_EQ(last, 6);
    ASSERT_EQ(bad.size(), 2U);
    EXPECT_HAS(bad[0].name, "train/ants/0.jpg");
    EXPECT_HAS(bad[1].name, "train/bees/cut.jpg");
    EXPECT_HAS(bad[1].fact, "damaged JPEG: Premature end of JPEG file");
  }
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { bad_samples(*train, 0, [](std::int64_t) {}); }),
             "threads is 0, want 1 or more");
}

TEST_F(DataSetsOnDisk, ThatWereConvertedAreReadByH5py) {
  if (!has_hdf5()) GTEST_SKIP() << "this build is without HDF5";
  const char* python = std::getenv("LOCKSTEP_PEER_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "LOCKSTEP_PEER_PYTHON names no Python that has the package h5py";
  add_images();
  const FolderIndex train = folder_index(folder_.path() / "train");
  convert_folders({{"train", train}}, folder_.path() / "set.h5", [](const ConvertProgress&) { return true; });
  const auto script = golden_path("../hdf5/read_back.py");
  const std::string command = std::string("'") + python + "' '" + script.string() + "' '" +
                              (folder_.path() / "set.h5").string() + "' '" + (folder_.path() / "train").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace lockstep
