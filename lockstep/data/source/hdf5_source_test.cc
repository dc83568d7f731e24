// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/hdf5_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/data/batch_reader.h"
#include "lockstep/data/source/convert.h"
#include "lockstep/data/transform/transform_list.h"
#include "lockstep/format/hdf5/hdf5.h"
#include "lockstep/format/image/image_index.h"
#include "tests/support/golden_images.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::golden_path;
using testing::message_of;
using testing::TemporaryFolder;

const std::filesystem::path kGolden = lockstep::testing::source_root() / "tests/golden/hdf5";

class Hdf5 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_hdf5()) GTEST_SKIP() << "this build is without HDF5";
  }
  std::string without_folders(std::string text) const {
    for (const std::string& path : {folder_.path().string(), kGolden.string()}) {
      for (auto at = text.find(path); at != std::string::npos; at = text.find(path))
        text.replace(at, path.size(), "DIR");
    }
    return text;
  }
  TemporaryFolder folder_;
};

std::vector<std::byte> input_of(const SampleSource& source, std::int64_t id) {
  std::vector<std::byte> input(source.fields()[0].bytes());
  std::int64_t label = -1;
  const std::vector<std::byte*> to{input.data(), reinterpret_cast<std::byte*>(&label)};
  source.read({.id = id}, to);
  EXPECT_EQ(label, id % 3);
  return input;
}

template <typename T>
void expect_counting(const SampleSource& source, const std::string& name) {
  ASSERT_EQ(source.size(), 7) << name;
  for (const std::int64_t id : {0, 3, 4, 6, 1}) {
    const std::vector<std::byte> bytes = input_of(source, id);
    std::vector<T> numbers(bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    std::ranges::sort(numbers);  // Interleaved pixels come as planes.
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(numbers[i], static_cast<T>(static_cast<std::int64_t>(i) + id)) << name << " " << id;
    }
  }
}

TEST_F(Hdf5, ReadArraysOfAnyLayout) {
  const auto arrays = [](const std::string& group) { return hdf5_part(kGolden / "arrays.h5", group).arrays; };
  for (const char* group : {"/whole", "/chunked", "/gzip", "/cut"})
    expect_counting<std::uint8_t>(*arrays(group), group);
  for (const char* group : {"/floats", "/big_endian"}) expect_counting<float>(*arrays(group), group);
  expect_counting<double>(*arrays("/resizable"), "/resizable");
  EXPECT_EQ(arrays("/whole")->fields()[0].shape, (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(arrays("/gzip")->fields()[0].shape, (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(arrays("/cut")->fields()[0].shape, (std::vector<std::int64_t>{1, 4, 5}));
  EXPECT_EQ(arrays("/whole")->classes(), 3);
  const std::vector<std::byte> plane = input_of(*arrays("/gzip"), 0);
  EXPECT_EQ(plane[0], std::byte{0});
  EXPECT_EQ(plane[1], std::byte{3});
  EXPECT_EQ(input_of(*arrays("/sparse"), 3), std::vector<std::byte>(6));
  EXPECT_EQ(input_of(*arrays("/sparse"), 4)[5], std::byte{5});
}

TEST_F(Hdf5, GoPastTheLibraryWhereRowsLieWhole) {
  const Hdf5File file(kGolden / "arrays.h5");
  for (const char* name : {"/whole/x", "/chunked/x", "/floats/x", "/resizable/x", "/sparse/x"})
    EXPECT_TRUE(file.array(name).is_direct()) << name;
  for (const char* name : {"/gzip/x", "/cut/x", "/big_endian/x"}) EXPECT_FALSE(file.array(name).is_direct()) << name;
  std::vector<std::byte> rows(5 * 60);
  file.array("/chunked/x").read_rows(1, 5, rows);
  EXPECT_EQ(rows[60 * 4], std::byte{5});
}

TEST_F(Hdf5, ReadEncodedImagesOfBothKinds) {
  for (const char* group : {"/train", "/val"}) {
    const Hdf5Part part = hdf5_part(kGolden / "encoded.h5", group);
    ASSERT_TRUE(part.images) << group;
    ASSERT_EQ(part.images->size(), 3);
    EXPECT_EQ(part.images->classes(), (std::vector<std::string>{"ants", "bees"}));
    EXPECT_EQ(part.images->label_of(1), 1);
    const FileBytes bytes = part.images->read(1);
    const std::string wanted = text_of_file(golden_path("rgb.png"));
    EXPECT_TRUE(std::ranges::equal(bytes.bytes(), testing::bytes_of(wanted))) << group;
  }
  EXPECT_EQ(hdf5_group(kGolden / "encoded.h5", "train"), "/train");
  EXPECT_EQ(hdf5_group(kGolden / "encoded.h5", "validation"), "/val");
  EXPECT_EQ(hdf5_group(kGolden / "encoded.h5", "test"), std::nullopt);
}

TEST_F(Hdf5, SayWhatIsWrong) {
  const auto refused = [&](const std::string& group, const Hdf5Names& names = {}) {
    return without_folders(message_of(ErrorKind::kData, [&] { hdf5_part(kGolden / "arrays.h5", group, names); }));
  };
  EXPECT_HAS(refused("/fewer"), "DIR/arrays.h5: '/fewer/y': 7 labels for 5 samples, want as many");
  EXPECT_HAS(refused("/negative"), "DIR/arrays.h5: '/negative/y': label #0 is -1, want 0 to 1");
  EXPECT_HAS(refused("/complex"), "DIR/arrays.h5: '/complex/x': its numbers are of a type that no tensor has");
  EXPECT_HAS(refused("/whole", {.input = "z"}), "DIR/arrays.h5: no array z in '/whole', which holds x, y");
  EXPECT_HAS(refused("/whole", {.target = "x"}), "DIR/arrays.h5: '/whole/x': is [7, 3, 4, 5], want [7]");

  const std::string whole = text_of_file(kGolden / "arrays.h5");
  write_whole(folder_.path() / "cut.h5", whole.substr(0, 20'000), false);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { hdf5_group(folder_.path() / "cut.h5", "train"); }),
             "cut.h5: no HDF5 file, or a damaged one: ");
  write_whole(folder_.path() / "no.h5", "hello", false);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { hdf5_group(folder_.path() / "no.h5", "train"); }),
             "no.h5: no HDF5 file, or a damaged one: ");
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { hdf5_group(folder_.path() / "none.h5", "train"); }), "No such file");
}

TEST(Hdf5Index, MustLieWithinTheBytes) {
  const auto refused = [](const std::vector<std::uint64_t>& index) {
    return message_of(ErrorKind::kData, [&] { check_image_index(index, 100, "x"); });
  };
  check_image_index(std::vector<std::uint64_t>{0, 100, 40, 60}, 100, "x");
  EXPECT_HAS(refused({0, 10, 50, 51}), "x: image #1 is bytes 50 + 51, want them within the 100 there are");
  EXPECT_HAS(refused({~0ULL, 2}), "x: image #0 is bytes 18446744073709551615 + 2");
  EXPECT_HAS(refused({0, 10, 0, 0}), "x: image #1 is empty");
}

class Conversions : public Hdf5 {
 protected:
  void SetUp() override {
    Hdf5::SetUp();
    int place = 0;
    for (const char* name : {"420.jpg", "444.jpg", "rgb.png", "grey.jpg", "cmyk.jpg", "palette.png"}) {
      for (const char* part : {"train", "val"}) {
        const auto to = folder_.path() / part / (place++ % 3 == 0 ? "ants" : "bees");
        make_folder(to);
        write_whole(to / name, text_of_file(golden_path(name)), false);
      }
    }
    parts_.push_back({.group = "train", .index = folder_index(folder_.path() / "train")});
    parts_.push_back({.group = "val", .index = folder_index(folder_.path() / "val", parts_[0].index.classes)});
  }

  static std::vector<std::uint8_t> pixels_of(const EncodedImages& images, std::int64_t id) {
    const FileBytes file = images.read(id);
    const Image image = ImageDecoder(file.bytes(), "").decoded();
    return {image.bytes().begin(), image.bytes().end()};
  }

  void expect_same_as_folders(const std::filesystem::path& file) const {
    for (const ConvertPart& part : parts_) {
      const auto folder = folder_images(part.index);
      const auto images = hdf5_part(file, "/" + part.group).images;
      ASSERT_EQ(images->size(), folder->size());
      EXPECT_EQ(images->classes(), folder->classes());
      for (std::int64_t id = 0; id < folder->size(); ++id) {
        EXPECT_EQ(images->label_of(id), folder->label_of(id));
        EXPECT_EQ(pixels_of(*images, id), pixels_of(*folder, id));
        EXPECT_HAS(images->name_of(id), "(" + part.index.images[static_cast<std::size_t>(id)].path + ")");
      }
    }
  }

  std::vector<ConvertPart> parts_;
};

bool go_on(const ConvertProgress&) { return true; }

TEST_F(Conversions, KeepBytesLabelsAndNames) {
  const auto to = folder_.path() / "set.h5";
  ConvertProgress last;
  const Converted done = convert_folders(parts_, to, [&](const ConvertProgress& progress) {
    last = progress;
    return true;
  });
  EXPECT_EQ(done.done.images, 12);
  EXPECT_EQ(last.images, last.all_images);
  EXPECT_EQ(last.bytes, last.all_bytes);
  EXPECT_EQ(done.images_kept, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "set.h5.part"));
  expect_same_as_folders(to);
  const Hdf5File file(to);
  EXPECT_TRUE(file.array("/train/images").is_direct());
  const auto sums = file.array("/train/xxh3").integers();
  const FileBytes first = folder_images(parts_[0].index)->read(0);
  EXPECT_EQ(static_cast<std::uint64_t>(sums[0]), xxh3_64(first.bytes()));
  EXPECT_HAS(without_folders(message_of(ErrorKind::kUsage, [&] { convert_folders(parts_, to, go_on); })),
             "DIR/set.h5: exists already");
}

TEST_F(Conversions, GoOnWhereTheyWereStopped) {
  const auto to = folder_.path() / "set.h5";
  const Converted begun = convert_folders(parts_, to, [](const ConvertProgress&) { return false; });
  EXPECT_EQ(begun.done.images, 1);
  EXPECT_FALSE(std::filesystem::exists(to));
  const std::filesystem::path part = to.string() + ".part";
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { hdf5_part(part, "/train"); }), "image #1 is empty");
  const Converted done = convert_folders(parts_, to, go_on);
  EXPECT_EQ(done.images_kept, 1);
  EXPECT_EQ(done.done.images, 12);
  expect_same_as_folders(to);
}

TEST_F(Conversions, WriteAgainWhatIsNotAsItsSumSays) {
  const auto to = folder_.path() / "set.h5";
  convert_folders(parts_, to, [](const ConvertProgress&) { return false; });
  const std::filesystem::path part = to.string() + ".part";
  std::string bytes = text_of_file(part);
  const std::string first = text_of_file(folder_.path() / "train" / parts_[0].index.images[0].path);
  const std::size_t at = bytes.find(first);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 100] ^= 1;
  write_whole(part, bytes, false);
  EXPECT_EQ(convert_folders(parts_, to, go_on).images_kept, 0);
  expect_same_as_folders(to);
}

TEST_F(Conversions, BeginAnewWhereTheFoldersChanged) {
  const auto to = folder_.path() / "set.h5";
  convert_folders(parts_, to, [](const ConvertProgress&) { return false; });
  std::filesystem::remove(folder_.path() / "train" / parts_[0].index.images[0].path);
  parts_[0].index = folder_index(folder_.path() / "train");
  EXPECT_EQ(convert_folders(parts_, to, go_on).images_kept, 0);
  expect_same_as_folders(to);
}

TEST_F(Conversions, GiveTheSameSamplesAsTheFolders) {
  const auto to = folder_.path() / "set.h5";
  convert_folders(parts_, to, go_on);
  const auto transforms =
      parsed_transforms(std::vector<std::string>{"random_resized_crop(16)", "flip"}, "data.transforms");
  const auto folder = image_source(folder_images(parts_[0].index), transforms);
  const auto hdf5 = image_source(hdf5_part(to, "/train").images, transforms);
  for (std::int64_t id = 0; id < folder->size(); ++id) {
    std::vector<std::byte> a(3 * 16 * 16);
    std::vector<std::byte> b(3 * 16 * 16);
    std::int64_t label = 0;
    folder->read({.seed = 1, .epoch = 2, .id = id},
                 std::vector<std::byte*>{a.data(), reinterpret_cast<std::byte*>(&label)});
    hdf5->read({.seed = 1, .epoch = 2, .id = id},
               std::vector<std::byte*>{b.data(), reinterpret_cast<std::byte*>(&label)});
    EXPECT_EQ(a, b);
  }
}

}  // namespace
}  // namespace lockstep
