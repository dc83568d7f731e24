// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/pixels.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/data/transform/colour.h"
#include "lockstep/data/transform/resample.h"
#include "tests/support/golden_images.h"

namespace lockstep {
namespace {

using testing::crc_of;
using testing::golden_image;
using testing::golden_numbers;

ImageArea area_of(const nlohmann::json& numbers) { return {numbers[0], numbers[1], numbers[2], numbers[3]}; }

TEST(Pixels, AreResizedAsPillowDoes) {
  const Image image = golden_image("rgb.png");
  for (const auto& wanted : golden_numbers("golden.json", "resized")) {
    const Image out =
        resized(copy_of(view_of(image), area_of(wanted.at("area"))), {wanted.at("width"), wanted.at("height")});
    EXPECT_EQ(crc_of(out), wanted.at("crc")) << wanted;
  }
}

TEST(Pixels, AreResizedInGreyToo) {
  const Image rgb = golden_image("grey.png");
  PixelView one = view_of(rgb);
  one.channels = 1;
  EXPECT_EQ(crc_of(resized(copy_of(one), {40, 30})), golden_numbers("golden.json", "resized_grey_crc"));
}

TEST(Pixels, ChangeColoursAsTorchvisionDoes) {
  for (const auto& wanted : golden_numbers("golden.json", "coloured")) {
    Image image = golden_image("rgb.png");
    const std::string name = wanted.at("name");
    const auto adjust = name == "brightness" ? adjust_brightness
                        : name == "contrast" ? adjust_contrast
                        : name == "hue"      ? adjust_hue
                                             : adjust_saturation;
    adjust(image, wanted.at("factor").get<double>());
    EXPECT_EQ(crc_of(image), wanted.at("crc")) << wanted;
  }
}

TEST(Pixels, AreTheSameThroughAnyView) {
  const Image image = golden_image("rgb.png");
  const PixelView view = view_of(image);
  const ImageSize size = image.size();
  std::vector<std::uint8_t> planes(image.bytes().size());
  write_planes(view, planes.data());
  const PixelView planar = view_of_planes(planes.data(), size, 3);
  EXPECT_EQ(crc_of(copy_of(planar)), crc_of(image));
  EXPECT_EQ(crc_of(copy_of(mirrored(mirrored(view)))), crc_of(image));
  EXPECT_EQ(crc_of(copy_of(mirrored(planar))), crc_of(copy_of(mirrored(view))));
  const ImageArea area{10, 20, 31, 17};
  EXPECT_EQ(crc_of(copy_of(part_of_view(view, area))), crc_of(copy_of(planar, area)));

  std::vector<std::uint8_t> from_mirror(planes.size());
  std::vector<std::uint8_t> from_planar_mirror(planes.size());
  write_planes(mirrored(view), from_mirror.data());
  write_planes(mirrored(planar), from_planar_mirror.data());
  EXPECT_EQ(from_mirror, from_planar_mirror);
  EXPECT_NE(from_mirror, planes);
}

TEST(Pixels, AreBlackOutsideOfTheImage) {
  Image image({2, 1}, 1);
  image.row(0)[0] = 5;
  image.row(0)[1] = 6;
  const Image out = copy_of(view_of(image), {-1, -1, 4, 3});
  const std::vector<std::uint8_t> wanted{0, 0, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0};
  EXPECT_EQ(std::vector<std::uint8_t>(out.bytes().begin(), out.bytes().end()), wanted);
  const Image beside = copy_of(view_of(image), {5, 0, 3, 1});
  EXPECT_EQ(std::vector<std::uint8_t>(beside.bytes().begin(), beside.bytes().end()), std::vector<std::uint8_t>(3));
}

}  // namespace
}  // namespace lockstep
