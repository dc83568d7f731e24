// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/image/image.h"

#include <gtest/gtest.h>

#include <random>

#include "lockstep/base/error.h"
#include "tests/support/golden_images.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::bytes_of;
using testing::crc_of;
using testing::golden_numbers;
using testing::golden_path;
using testing::hymenoptera;
using testing::message_of;

std::string golden_bytes(const std::string& name) { return text_of_file(golden_path(name)); }

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : golden_numbers("golden.json", "decoded")) names.push_back(entry.at("file"));
  return names;
}

std::string refusal_of(const std::string& bytes) {
  return message_of(ErrorKind::kData, [&] { ImageDecoder(bytes_of(bytes), "x").decoded(); });
}

class Random {
 public:
  int below(int n) { return std::uniform_int_distribution(0, n - 1)(engine_); }
  ImageArea area_in(ImageSize size) {
    const int left = below(size.width);
    const int top = below(size.height);
    return {left, top, 1 + below(size.width - left), 1 + below(size.height - top)};
  }

 private:
  std::mt19937 engine_{20240301};
};

void expect_parts_of_the_whole(const std::string& bytes, const std::string& name, int rounds, Random& random) {
  const Image whole = ImageDecoder(bytes_of(bytes), name).decoded();
  for (int round = 0; round < rounds; ++round) {
    const ImageArea area = random.area_in(whole.size());
    const Image part = ImageDecoder(bytes_of(bytes), name).decoded(area);
    for (int y = 0; y < area.height; ++y) {
      ASSERT_TRUE(std::equal(part.row(y), part.row(y) + part.row_bytes(), whole.row(area.top + y) + 3 * area.left))
          << name << " row " << y << " of " << area.width << " x " << area.height << " at " << area.left << ", "
          << area.top;
    }
  }
}

TEST(Image, IsDecodedAsPillowDoes) {
  for (const auto& wanted : golden_numbers("golden.json", "decoded")) {
    const Image image = testing::golden_image(wanted.at("file"));
    EXPECT_EQ(image.size(), (ImageSize{97, 61})) << wanted;
    EXPECT_EQ(crc_of(image), wanted.at("crc")) << wanted;
  }
}

TEST(Image, OfRealPhotographsIsDecodedAsPillowDoes) {
  if (!hymenoptera()) GTEST_SKIP() << testing::kNoHymenoptera;
  const auto wanted = golden_numbers("hymenoptera.json", "decoded");
  int seen = 0;
  for (const auto& [name, crc] : wanted.items()) {
    if (seen++ % 8 != 0) continue;
    EXPECT_EQ(crc_of(testing::image_of_file(*hymenoptera() / name)), crc) << name;
  }
}

TEST(Image, HasItsKindAndSizeFromTheHeader) {
  const std::string jpeg = golden_bytes("420.jpg");
  const std::string png = golden_bytes("rgb.png");
  EXPECT_EQ(image_kind(bytes_of(jpeg)), ImageKind::kJpeg);
  EXPECT_EQ(image_kind(bytes_of(png).first(kImageKindBytes)), ImageKind::kPng);
  EXPECT_EQ(image_kind(bytes_of("GIF89a, and so on")), ImageKind::kUnknown);
  EXPECT_EQ(image_kind({}), ImageKind::kUnknown);
  const ImageDecoder decoder(bytes_of(png).first(60), "x");
  EXPECT_EQ(decoder.kind(), ImageKind::kPng);
  EXPECT_EQ(decoder.size(), (ImageSize{97, 61}));
}

TEST(Image, HasPartsThatEqualThoseOfTheWhole) {
  Random random;
  for (const std::string& name : golden_names()) expect_parts_of_the_whole(golden_bytes(name), name, 100, random);
}

// If later scans are missing, libjpeg estimates their values from two blocks on each side.
TEST(Image, WhoseLaterScansAreMissingHasPartsThatEqualThoseOfTheWhole) {
  Random random;
  const std::string bytes = golden_bytes("progressive.jpg");
  std::size_t scan = bytes.find("\xff\xda");
  for (int scans = 1; scans < 5; ++scans) {
    scan = bytes.find("\xff\xda", scan + 1);
    ASSERT_NE(scan, std::string::npos);
    expect_parts_of_the_whole(bytes.substr(0, scan) + "\xff\xd9", std::to_string(scans) + " scans", 100, random);
  }
}

TEST(Image, OfRealPhotographsHasPartsThatEqualThoseOfTheWhole) {
  if (!hymenoptera()) GTEST_SKIP() << testing::kNoHymenoptera;
  Random random;
  int seen = 0;
  const auto photographs = golden_numbers("hymenoptera.json", "decoded");
  for (const auto& [name, crc] : photographs.items()) {
    if (seen++ % 16 == 0) expect_parts_of_the_whole(text_of_file(*hymenoptera() / name), name, 4, random);
  }
}

TEST(Image, ThatIsCutShortIsRefusedAnywhere) {
  for (const std::string& name : golden_names()) {
    const std::string bytes = golden_bytes(name);
    for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 40) {
      refusal_of(bytes.substr(0, length));
      const auto upper = [&] { ImageDecoder(bytes_of(bytes.substr(0, length)), "x").decoded({0, 0, 9, 1}); };
      message_of(ErrorKind::kData, upper);
    }
  }
  EXPECT_EQ(refusal_of(""),
            "x: starts with no bytes at all, want a JPEG or PNG image\n  hint: remove the file or convert it");
  const std::string jpeg = golden_bytes("420.jpg");
  EXPECT_HAS(refusal_of(jpeg.substr(0, 200)), "x: damaged JPEG header: Premature end of JPEG file");
  EXPECT_HAS(refusal_of(jpeg.substr(0, jpeg.size() - 2)), "x: damaged JPEG: Premature end of JPEG file");
  const std::string png = golden_bytes("rgb.png");
  EXPECT_HAS(refusal_of(png.substr(0, 20)), "x: damaged PNG header: the file is cut short");
  EXPECT_HAS(refusal_of(png.substr(0, png.size() - 30)), "x: damaged PNG: the file is cut short");
}

TEST(Image, OfAnotherFormatIsRefusedByItsFirstBytes) {
  EXPECT_HAS(refusal_of("GIF89a\x01\x02 and so on"),
             "x: starts with 47 49 46 38 39 61 01 02 ('GIF89a..'), want a JPEG or PNG image");
}

TEST(Image, ThatPromisesMorePixelsThanItsBytesCanHoldIsRefusedBeforeMemoryIsTaken) {
  std::string jpeg = golden_bytes("444.jpg");
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_HAS(refusal_of(jpeg), "x: the header says 65500 x 65500 pixels, but a file of this length holds at most ");
  jpeg.replace(frame + 5, 4, std::string("\0\0\0\x61", 4));
  refusal_of(jpeg);

  std::string png = golden_bytes("rgb.png");
  png.replace(16, 8, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8));
  const auto sum = static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17));
  for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(sum >> (24 - 8 * i));
  EXPECT_HAS(refusal_of(png),
             "x: the header says 2147483647 x 2147483647 pixels, but a file of this length holds at most ");
}

TEST(Image, ThatIsDamagedIsDecodedOrRefusedWithoutHarm) {
  Random random;
  int taken = 0;
  int refused = 0;
  for (const std::string& name : golden_names()) {
    for (int round = 0; round < 100; ++round) {
      std::string bytes = golden_bytes(name);
      for (int n = 0; n < 3; ++n)
        bytes[static_cast<std::size_t>(random.below(static_cast<int>(bytes.size())))] ^=
            static_cast<char>(1 << random.below(8));
      try {
        ImageDecoder decoder(bytes_of(bytes), name);
        if (decoder.size().width > 4000 || decoder.size().height > 4000) continue;
        decoder.decoded();
        ++taken;
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), ErrorKind::kData) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace lockstep
