// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/version_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(VersionText, IsTheMakersOwn) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
  EXPECT_EQ(hip_version_text(50731921), "5.7");
  EXPECT_EQ(hip_version_text(71526333), "7.15");
}

}  // namespace
}  // namespace lockstep
