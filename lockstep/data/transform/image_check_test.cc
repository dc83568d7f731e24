// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/image_check.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

const Field kColour{"input", "U8", {3, 8, 8}};
const Field kGrey{"input", "U8", {1, 8, 8}};
const Field kFloats{"input", "F32", {3, 8, 8}};
const Field kRow{"input", "F32", {20}};

std::string refused(const Field& field, const ImageTransforms& transforms) {
  return message_of(ErrorKind::kRecipe, [&] { require_images(field, transforms); });
}

TEST(ImageCheck, WantsANormalisationOfAsManyChannels) {
  ImageTransforms three;
  three.normalisation = Normalisation{{0.5F, 0.5F, 0.5F}, {0.2F, 0.2F, 0.2F}};
  require_images(kColour, three);
  EXPECT_HAS(refused(kGrey, three), "data.transforms has a normalize of 3 channels, and the images have 1\n  hint: ");
  ImageTransforms one;
  one.normalisation = Normalisation{{0.5F}, {0.2F}};
  require_images(kColour, one);
  require_images(kGrey, one);
}

TEST(ImageCheck, RefusesANormalisationThatWouldBeIgnored) {
  ImageTransforms one;
  one.normalisation = Normalisation{{0.5F}, {0.2F}};
  EXPECT_HAS(refused(kFloats, one), "'input' of a sample is F32 [3, 8, 8]; want U8 [channels, height, width]");
  EXPECT_HAS(refused(kRow, one), "leave normalize out");
}

TEST(ImageCheck, RefusesToMixWhatIsNoImage) {
  ImageTransforms mixup;
  mixup.mixing.mixup_alpha = 0.2;
  require_images(kFloats, mixup);
  EXPECT_HAS(refused(kRow, mixup), "data.transforms has mixup or cutmix, and 'input' of a sample is F32 [20]");
  ImageTransforms cutmix;
  cutmix.mixing.cutmix_alpha = 1;
  EXPECT_HAS(refused(kRow, cutmix), "want [channels, height, width]");
  require_images(kRow, {});
}

}  // namespace
}  // namespace lockstep
