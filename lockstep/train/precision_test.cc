// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/precision.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

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

TEST(Precision, Tf32IsRefusedOnAmdsDevices) {
  const c10::Device device(c10::kCUDA, 0);
  require_precision(Precision::kTf32, device, "CUDA");
  require_precision(Precision::kBf16, device, "ROCm");
  EXPECT_HAS(testing::message_of(ErrorKind::kRecipe, [&] { require_precision(Precision::kTf32, device, "ROCm"); }),
             "trainer.precision is tf32, which the device cuda:0 (ROCm) has not");
}

}  // namespace
}  // namespace lockstep
