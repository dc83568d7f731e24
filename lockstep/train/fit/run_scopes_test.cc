// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/run_scopes.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(DeterministicScope, FillsNoNewTensors) {
  auto& context = at::globalContext();
  ASSERT_TRUE(context.deterministicFillUninitializedMemory()) << "LibTorch's default";
  {
    const DeterministicScope scope(true);
    EXPECT_TRUE(context.deterministicAlgorithms());
    EXPECT_FALSE(context.deterministicFillUninitializedMemory());
  }
  EXPECT_FALSE(context.deterministicAlgorithms());
  EXPECT_TRUE(context.deterministicFillUninitializedMemory());
  const DeterministicScope off(false);
  EXPECT_TRUE(context.deterministicFillUninitializedMemory());
}

}  // namespace
}  // namespace lockstep
