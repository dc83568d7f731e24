// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/precision.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Tf32Scope, AllowsTf32WhereItWasChosenAndNowhereElse) {
  const auto& context = at::globalContext();
  const bool before = context.allowTF32CuDNN();
  for (const auto precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
    {
      const Tf32Scope scope(precision);
      EXPECT_EQ(context.allowTF32CuDNN(), precision == Precision::kTf32);
      EXPECT_EQ(context.allowTF32CuBLAS(), precision == Precision::kTf32);
    }
    EXPECT_EQ(context.allowTF32CuDNN(), before);
  }
}

}  // namespace
}  // namespace lockstep
