// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/pattern.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(FitsPattern, AStarStandsForAnyLettersAndAllElseForItself) {
  EXPECT_TRUE(fits_pattern("fc.weight", "fc.weight"));
  EXPECT_TRUE(fits_pattern("layer1.0.bn1.bias", "*.bias"));
  EXPECT_TRUE(fits_pattern("layer1.0.bn1.bias", "layer1.*"));
  EXPECT_TRUE(fits_pattern("layer1.0.bn1.bias", "*bn*.b*s"));
  EXPECT_TRUE(fits_pattern("aab", "*ab"));
  EXPECT_TRUE(fits_pattern("", "*"));
  EXPECT_TRUE(fits_pattern("", ""));
  EXPECT_FALSE(fits_pattern("fc.weight", "fc"));
  EXPECT_FALSE(fits_pattern("fc", "fc.*"));
  EXPECT_FALSE(fits_pattern("layer1.0.bn1.bias", "*.weight"));
  EXPECT_FALSE(fits_pattern("abc", "*b"));
  EXPECT_FALSE(fits_pattern("a", ""));
}

}  // namespace
}  // namespace lockstep
