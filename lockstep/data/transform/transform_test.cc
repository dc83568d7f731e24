// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/transform.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "lockstep/data/transform/sample_rng.h"
#include "lockstep/data/transform/transform_list.h"
#include "tests/support/golden_images.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::bytes_of;
using testing::crc_of;
using testing::golden_image;
using testing::golden_numbers;
using testing::golden_path;
using testing::message_of;

using List = std::vector<std::string>;

ImageTransforms transforms_of(const List& list) { return parsed_transforms(list, "data.transforms"); }

std::vector<std::uint8_t> planes_for(const ImageTransforms& transforms, ImageSize in, int channels = 3) {
  const ImageSize out = transforms.output_size(in).value();
  return std::vector<std::uint8_t>(static_cast<std::size_t>(channels * out.width * out.height));
}

std::vector<std::uint8_t> applied(const ImageTransforms& transforms, const Image& image, const SampleKey& key = {}) {
  std::vector<std::uint8_t> planes = planes_for(transforms, image.size(), image.channels());
  transforms.apply(view_of(image), key, planes.data());
  return planes;
}

std::string refusal_of(const List& list) {
  return message_of(ErrorKind::kRecipe, [&] { transforms_of(list); });
}

TEST(Transforms, GiveWhatTorchvisionGives) {
  const Image image = golden_image("rgb.png");
  for (const auto& wanted : golden_numbers("golden.json", "transformed")) {
    const ImageTransforms transforms = transforms_of(wanted.at("list").get<List>());
    const ImageSize size{wanted.at("width"), wanted.at("height")};
    ASSERT_EQ(transforms.output_size(image.size()), size) << wanted;
    const std::vector<std::uint8_t> planes = applied(transforms, image);
    EXPECT_EQ(crc_of(copy_of(view_of_planes(planes.data(), size, 3))), wanted.at("crc")) << wanted;
  }
}

TEST(Transforms, OfAnEncodedImageAreThoseOfItsPixels) {
  const std::vector<List> lists = {{"random_resized_crop(24)", "flip"},
                                   {"center_crop(40)", "flip(p=1)"},
                                   {"center_crop(80, 120)"},
                                   {"random_crop(32)", "color_jitter(0.4, 0.4, 0.4, 0.1)"},
                                   {"random_crop(61, 97, padding=4)"},
                                   {"resize(32, 48)", "random_crop(32, padding=4)", "flip"}};
  for (const char* name : {"420.jpg", "progressive.jpg", "rgb.png", "interlaced.png"}) {
    const std::string bytes = text_of_file(golden_path(name));
    const Image whole = golden_image(name);
    for (const List& list : lists) {
      const ImageTransforms transforms = transforms_of(list);
      for (std::int64_t id = 0; id < 50; ++id) {
        const SampleKey key{.seed = 3, .epoch = 1, .id = id};
        ImageDecoder decoder(bytes_of(bytes), name);
        std::vector<std::uint8_t> planes = planes_for(transforms, whole.size());
        transforms.apply(decoder, key, planes.data());
        ASSERT_EQ(planes, applied(transforms, whole, key)) << name << " " << list[0] << " " << id;
      }
    }
  }
}

TEST(Transforms, DrawFromSeedEpochAndSampleAlone) {
  const Image image = golden_image("rgb.png");
  const auto transforms = transforms_of({"random_resized_crop(16)", "flip", "color_jitter(0.2, 0.2, 0.2, 0.1)"});
  const SampleKey key{.seed = 1, .epoch = 2, .id = 3};
  const auto once = applied(transforms, image, key);
  EXPECT_EQ(applied(transforms, image, key), once);
  EXPECT_NE(applied(transforms, image, {.seed = 2, .epoch = 2, .id = 3}), once);
  EXPECT_NE(applied(transforms, image, {.seed = 1, .epoch = 3, .id = 3}), once);
  EXPECT_NE(applied(transforms, image, {.seed = 1, .epoch = 2, .id = 4}), once);
}

TEST(Transforms, DrawNumbersThatDocsDataShows) {
  SampleRng draws({.seed = 1, .epoch = 2, .id = 3}, 4);
  EXPECT_EQ(draws.bits(), mixed(mixed(mixed(mixed(1, 2), 3), 4), 0));
  EXPECT_EQ(draws.bits(), mixed(mixed(mixed(mixed(1, 2), 3), 4), 1));
  std::map<std::int64_t, int> seen;
  double sum = 0;
  for (int i = 0; i < 60'000; ++i) {
    ++seen[draws.below(6)];
    const double number = draws.uniform();
    ASSERT_TRUE(number >= 0 && number < 1);
    sum += number;
  }
  EXPECT_EQ(seen.size(), 6U);
  for (const auto& [face, count] : seen) EXPECT_NEAR(count, 10'000, 400) << face;
  EXPECT_NEAR(sum / 60'000, 0.5, 0.006);
}

TEST(Transforms, CropAreasAndRatiosAsTorchvisionDistributesThem) {
  const step::RandomResizedCrop crop{.size = {64, 64}};
  const ImageSize image{500, 400};
  double area_sum = 0;
  double log_ratio_sum = 0;
  const int rounds = 20'000;
  for (int id = 0; id < rounds; ++id) {
    const ImageArea area = drawn_area(crop, image, {.seed = 0, .epoch = 0, .id = id}, 0);
    const double share = static_cast<double>(area.width) * area.height / (500.0 * 400.0);
    const double ratio = static_cast<double>(area.width) / area.height;
    ASSERT_TRUE(share > 0.078 && share <= 1.0 && ratio > 0.74 && ratio < 1.36);
    ASSERT_TRUE(area.left >= 0 && area.left + area.width <= 500 && area.top >= 0 && area.top + area.height <= 400);
    area_sum += share;
    log_ratio_sum += std::log(ratio);
  }
  const auto wanted = golden_numbers("golden.json", "crop_means");
  EXPECT_NEAR(area_sum / rounds, wanted.at("area").get<double>(), 0.006);
  EXPECT_NEAR(log_ratio_sum / rounds, wanted.at("log_ratio").get<double>(), 0.005);
}

TEST(Transforms, CropTheCentreWhereTenAttemptsDoNotFit) {
  const step::RandomResizedCrop crop{.size = {64, 64}, .scale = {0.9, 1}};
  EXPECT_EQ(drawn_area(crop, {1000, 10}, {}, 0), (ImageArea{493, 0, 13, 10}));
  EXPECT_EQ(drawn_area(crop, {9, 1000}, {}, 0), (ImageArea{0, 494, 9, 12}));
}

TEST(Transforms, FlipHalfOfTheImages) {
  Image image({2, 1}, 1);
  image.row(0)[0] = 1;
  image.row(0)[1] = 2;
  const auto transforms = transforms_of({"flip"});
  int flipped = 0;
  for (std::int64_t id = 0; id < 2000; ++id)
    flipped += applied(transforms, image, {.seed = 9, .epoch = 0, .id = id})[0] == 2;
  EXPECT_NEAR(flipped, 1000, 100);
}

TEST(Transforms, ReadARecipesList) {
  const auto all = transforms_of({" random_resized_crop( 64, scale=(0.2, 1) , ratio=[1, 1]) ",
                                  "color_jitter(0.4, hue=0.1)", "normalize(imagenet)", "mixup(0.2)", "cutmix"});
  const auto& crop = std::get<step::RandomResizedCrop>(all.steps.at(0));
  EXPECT_EQ(crop.size, (ImageSize{64, 64}));
  EXPECT_EQ(crop.scale[0], 0.2);
  EXPECT_EQ(crop.ratio[1], 1);
  EXPECT_EQ(std::get<step::ColorJitter>(all.steps.at(1)).brightness, 0.4);
  EXPECT_EQ(std::get<step::ColorJitter>(all.steps.at(1)).hue, 0.1);
  EXPECT_EQ(all.normalisation->mean.at(2), 0.406F);
  EXPECT_EQ(all.mixing.mixup_alpha, 0.2);
  EXPECT_EQ(all.mixing.cutmix_alpha, 1);
  EXPECT_TRUE(all.is_random());
  EXPECT_FALSE(all.is_light());
  const auto own = transforms_of({"normalize(mean=(0.5), std=0.25)"});
  EXPECT_EQ(own.normalisation, (Normalisation{{0.5F}, {0.25F}}));
}

TEST(Transforms, SayWhatIsWrongWithARecipesList) {
  EXPECT_EQ(refusal_of({"flip", "random_resize_crop(64)"}),
            "data.transforms[1] is 'random_resize_crop(64)', want one of: resize, center_crop, random_resized_crop, "
            "random_crop, flip, color_jitter, normalize, mixup, cutmix\n"
            "  hint: it may be random_resized_crop(SIZE, scale=(0.08, 1), ratio=(0.75, 1.3333))");
  EXPECT_EQ(refusal_of({"resize"}),
            "data.transforms[0] is 'resize', which has no size\n"
            "  hint: it is written resize(SHORTER_SIDE) or resize(HEIGHT, WIDTH)");
  EXPECT_HAS(refusal_of({"resize(0)"}), "which has as size 0 where there should be 1 to 65500");
  EXPECT_HAS(refusal_of({"resize(1.5)"}), "which has as size 1.5 where a whole number should be");
  EXPECT_HAS(refusal_of({"flip(2)"}), "which has as p 2 where there should be 0 to 1");
  EXPECT_HAS(refusal_of({"flip(0.5, 1)"}), "which has more values than it takes");
  EXPECT_HAS(refusal_of({"flip(q=0.5)"}), "which has 'q', which it does not take");
  EXPECT_HAS(refusal_of({"flip(0.5"}), "which has its end where ',' should be");
  EXPECT_HAS(refusal_of({"flip)"}), "data.transforms[0] is 'flip)', want one of");
  EXPECT_HAS(refusal_of({"flip() x"}), "which has 'x' after its end");
  EXPECT_HAS(refusal_of({"flip(p=x)"}), "which has as p 'x' where one number should be");
  EXPECT_HAS(refusal_of({"normalize(imagnet)"}), "which has 'imagnet', want imagenet, cifar10, cifar100 or mnist");
  EXPECT_HAS(refusal_of({"normalize(mean=(1, 2), std=1)"}), "which has no mean of 1 or 3 numbers");
  EXPECT_HAS(refusal_of({"normalize(mean=1, std=0)"}), "which has a std that is not above 0");
  EXPECT_HAS(refusal_of({"random_resized_crop(8, scale=(1, 0.5))"}), "two numbers above 0, the smaller first");
  EXPECT_HAS(refusal_of({""}), "data.transforms[0] is '', want one of");
}

TEST(Transforms, AreRefusedWhereTheImageIsSmallerThanACrop) {
  const Image image = golden_image("rgb.png");
  EXPECT_EQ(message_of(ErrorKind::kData, [&] { applied(transforms_of({"random_crop(64, 128)"}), image); }),
            "the image is 97 x 61, want at least 128 x 64 for random_crop with 0 pixels of padding\n"
            "  hint: put a resize before it, or give it more padding");
}

TEST(Transforms, WithoutChanceAreThoseOfValidation) {
  const auto plain = without_chance(
      transforms_of({"random_resized_crop(224)", "flip", "color_jitter(1)", "normalize(imagenet)", "mixup"}));
  ASSERT_EQ(plain.steps.size(), 2U);
  EXPECT_EQ(std::get<step::Resize>(plain.steps[0]).height, 256);
  EXPECT_EQ(std::get<step::CenterCrop>(plain.steps[1]).size, (ImageSize{224, 224}));
  EXPECT_TRUE(plain.normalisation.has_value());
  EXPECT_EQ(plain.mixing.mixup_alpha, 0);
  EXPECT_FALSE(plain.is_random());
  EXPECT_TRUE(without_chance(transforms_of({"random_crop(32, padding=4)", "flip"})).steps.empty());
  EXPECT_EQ(without_chance(transforms_of({"resize(40)", "random_crop(32)"})).steps.size(), 2U);
}

}  // namespace
}  // namespace lockstep
