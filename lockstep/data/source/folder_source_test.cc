// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/folder_source.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/batch_reader.h"
#include "lockstep/data/source/image_source.h"
#include "lockstep/data/transform/transform_list.h"
#include "tests/support/golden_images.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::golden_path;
using testing::hymenoptera;
using testing::message_of;
using testing::TemporaryFolder;

class ImageFolders : public ::testing::Test {
 protected:
  void add(const std::string& name, const std::string& golden) const {
    add_text(name, text_of_file(golden_path(golden)));
  }
  void add_text(const std::string& name, const std::string& text) const {
    make_folder((folder_.path() / name).parent_path());
    write_whole(folder_.path() / name, text, false);
  }
  std::string refusal_of(const std::string& part, const std::vector<std::string>& classes = {},
                         FolderOptions options = {}) const {
    std::string text = message_of(ErrorKind::kData, [&] { folder_index(folder_.path() / part, classes, options); });
    for (auto at = text.find(folder_.path().string()); at != std::string::npos;
         at = text.find(folder_.path().string())) {
      text.replace(at, folder_.path().string().size(), "DIR");
    }
    return text;
  }

  TemporaryFolder folder_;
};

ImageTransforms transforms_of(const std::vector<std::string>& list) {
  return parsed_transforms(list, "data.transforms");
}

TEST_F(ImageFolders, GiveClassesAndFilesInTorchvisionsOrder) {
  add("train/bees/b.png", "rgb.png");
  add("train/bees/a/z.jpg", "420.jpg");
  add("train/bees/B.jpg", "444.jpg");
  add("train/Ants/1.jpeg", "grey.jpg");
  add("train/.cache/1.jpg", "grey.jpg");
  add("train/bees/.hidden.jpg", "grey.jpg");
  const FolderIndex index = folder_index(folder_.path() / "train");
  EXPECT_EQ(index.classes, (std::vector<std::string>{"Ants", "bees"}));
  std::vector<std::string> paths;
  for (const FolderImage& image : index.images) paths.push_back(image.path + " " + std::to_string(image.label));
  EXPECT_EQ(paths, (std::vector<std::string>{"Ants/1.jpeg 0", "bees/B.jpg 1", "bees/b.png 1", "bees/a/z.jpg 1"}));
  EXPECT_TRUE(index.left_out.empty());
  EXPECT_TRUE(index.left_out.empty());
}

TEST_F(ImageFolders, LeaveOutFilesThatAreNoImagesWhateverTheirNames) {
  add("train/ants/photo", "420.jpg");
  add_text("train/ants/not_found.jpg", "GIF89a");
  add_text("train/ants/empty.png", "");
  const FolderIndex index = folder_index(folder_.path() / "train");
  ASSERT_EQ(index.images.size(), 1U);
  EXPECT_EQ(index.images[0].path, "ants/photo");
  EXPECT_HAS(left_out_note(index.root, index.left_out),
             "train: 2 files are no image and left out: 'ants/empty.png', 'ants/not_found.jpg'");

  const FolderIndex by_name = folder_index(folder_.path() / "train", {}, {.by_content = false});
  EXPECT_EQ(by_name.images.size(), 2U);
  EXPECT_EQ(by_name.left_out, std::vector<std::string>{"ants/photo"});
  EXPECT_EQ(refusal_of("train", {}, {.is_strict = true}),
            "DIR/train/ants/empty.png: neither JPEG nor PNG, and data.strict asks for images alone\n"
            "  hint: remove the file, or set data.strict = false");
}

TEST_F(ImageFolders, SayWhatIsMissing) {
  EXPECT_EQ(refusal_of("train"),
            "DIR/train: no such folder\n"
            "  hint: data.path wants a folder with train/ and val/, each with one folder of images for each class");
  add("train/1.jpg", "420.jpg");
  EXPECT_EQ(refusal_of("train"),
            "DIR/train: no folders in it, want one of images for each class\n"
            "  hint: as in train/ants/1.jpg and train/bees/2.jpg");
  make_folder(folder_.path() / "train/ants");
  EXPECT_EQ(refusal_of("train"),
            "DIR/train/ants: no JPEG or PNG image in it, want at least one\n"
            "  hint: put the class's images there, or remove the folder");
  add_text("train/ants/readme", "hello");
  EXPECT_HAS(refusal_of("train"), "no JPEG or PNG image in it (1 file is none), want at least one");
}

TEST_F(ImageFolders, RefuseAClassThatTrainingLacks) {
  add("val/wasps/1.jpg", "420.jpg");
  EXPECT_EQ(refusal_of("val", {"ants", "bees"}),
            "DIR/val: has the class 'wasps', which training lacks; it has 'ants', 'bees'\n"
            "  hint: rename the folder, or put images of that class into the training folder too");
  EXPECT_EQ(folder_index(folder_.path() / "val", {"ants", "wasps"}).images.at(0).label, 1);
}

TEST_F(ImageFolders, BecomeSamplesOfOneSize) {
  add("train/ants/1.jpg", "420.jpg");
  add("train/bees/1.png", "grey.png");
  const auto images = folder_images(folder_index(folder_.path() / "train"));
  const auto source = image_source(images, transforms_of({"resize(20, 30)"}));
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(source->classes(), 2);
  EXPECT_EQ(source->fields().at(0).shape, (std::vector<std::int64_t>{3, 20, 30}));
  EXPECT_HAS(source->name_of(1), "train/bees/1.png");
  std::vector<std::byte> pixels(3 * 20 * 30);
  std::int64_t label = -1;
  const std::vector<std::byte*> to{pixels.data(), reinterpret_cast<std::byte*>(&label)};
  source->read({.seed = 0, .epoch = 0, .id = 1}, to);
  EXPECT_EQ(label, 1);
  // The image is grey, so its three planes are the same.
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.begin() + 600, pixels.begin() + 600));
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { image_source(images, transforms_of({"resize(20)"})); }),
             "the transforms leave images at different sizes, want one size for a batch");
}

TEST_F(ImageFolders, NameAnImageThatIsDamaged) {
  add_text("train/ants/1.jpg", text_of_file(golden_path("420.jpg")).substr(0, 900));
  const auto source =
      image_source(folder_images(folder_index(folder_.path() / "train")), transforms_of({"resize(20, 30)"}));
  BatchReader loader(*source, {.workers = 0}, [](std::int64_t) {
    auto memory = std::make_shared<std::vector<std::byte>>(3 * 20 * 30 + 8);
    return BatchMemory{.fields = {memory->data(), memory->data() + 3 * 20 * 30}, .owner = memory};
  });
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { loader.next(); }),
             "train/ants/1.jpg: damaged JPEG: Premature end of JPEG file\n  hint: copy or download the file again");
}

TEST_F(ImageFolders, GiveThePixelsOfHymenopteraThatPillowGives) {
  if (!hymenoptera()) GTEST_SKIP() << testing::kNoHymenoptera;
  const FolderIndex train = folder_index(split_folder(*hymenoptera(), "train"));
  EXPECT_EQ(train.images.size(), 244U);
  EXPECT_EQ(train.left_out.size(), 1U);
  const FolderIndex val = folder_index(split_folder(*hymenoptera(), "validation"), train.classes);
  ASSERT_EQ(val.images.size(), 153U);
  const auto source = image_source(folder_images(val), transforms_of({"resize(64, 64)"}));
  const auto wanted = testing::golden_numbers("hymenoptera.json", "resized_to_64");
  for (std::int64_t id = 0; id < source->size(); id += 4) {
    std::vector<std::uint8_t> planes(3 * 64 * 64);
    std::int64_t label = -1;
    const std::vector<std::byte*> to{reinterpret_cast<std::byte*>(planes.data()), reinterpret_cast<std::byte*>(&label)};
    source->read({.seed = 0, .epoch = 0, .id = id}, to);
    const std::string& path = val.images[static_cast<std::size_t>(id)].path;
    EXPECT_EQ(testing::crc_of(copy_of(view_of_planes(planes.data(), {64, 64}, 3))), wanted.at("val/" + path)) << path;
    EXPECT_EQ(label, path.starts_with("ants") ? 0 : 1);
  }
}

}  // namespace
}  // namespace lockstep
