// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/dtype.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(Dtype, EveryNameReadsBackAsItself) {
  for (const char* name : {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}) {
    EXPECT_EQ(dtype_name(scalar_type_of(name)), name);
  }
}

TEST(Dtype, NamesTheTypeThatHasNoPlaceInAFile) {
  EXPECT_HAS(message_of(ErrorKind::kData, [] { scalar_type_of("F8_E4M3"); }), "'F8_E4M3' is not a type of LibTorch");
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { dtype_name(at::kComplexFloat); }),
             "a tensor of type ComplexFloat cannot be saved");
}

TEST(Dtype, ATensorReadsBackFromItsBytes) {
  const auto tensor = at::arange(6, at::kInt).view({2, 3});
  EXPECT_TRUE(at::equal(tensor_from("I32", {2, 3}, bytes_of(tensor)), tensor));
  EXPECT_EQ(tensor_from("F32", {0, 4}, {}).sizes(), (at::IntArrayRef{0, 4}));
}

TEST(Dtype, BytesThatDoNotFitTheShapeAreABrokenPromise) {
  const auto tensor = at::zeros({2, 3});
  EXPECT_HAS(message_of(ErrorKind::kBug, [&] { tensor_from("F32", {7}, bytes_of(tensor)); }), "broken promise");
  EXPECT_HAS(message_of(ErrorKind::kBug, [&] { bytes_of(tensor.t()); }), "is_contiguous");
}

TEST(ShapeText, IsWrittenAsPythonWritesIt) {
  EXPECT_EQ(shape_text({64, 3, 32}), "[64, 3, 32]");
  EXPECT_EQ(shape_text({}), "[]");
}

}  // namespace
}  // namespace lockstep
