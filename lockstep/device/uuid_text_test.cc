// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/uuid_text.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep {
namespace {

// The expected texts are as `nvidia-smi -L` prints them.
TEST(UuidText, IsNvidiaSmis) {
  constexpr std::array<char, 16> kBytes{'\x5d', '\x5b', '\xa0', '\xd6', '\xd3', '\x3d', '\x2b', '\x2c',
                                        '\x52', '\x4d', '\x9e', '\x3d', '\x8d', '\x2b', '\x8a', '\x77'};
  EXPECT_EQ(uuid_text(kBytes, "NVIDIA A100-SXM4-40GB"), "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77");
  EXPECT_EQ(uuid_text(kBytes, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"), "MIG-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77");
}

}  // namespace
}  // namespace lockstep
