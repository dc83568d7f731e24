// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/tensor_numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include "lockstep/format/weights/weights_file.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

template <typename Number>
TensorEntry tensor(const std::string& dtype, const std::vector<Number>& numbers) {
  return {.name = "x",
          .dtype = dtype,
          .shape = {static_cast<std::int64_t>(numbers.size())},
          .bytes = std::as_bytes(std::span(numbers))};
}

// The file dtypes.pt has the numbers i * 0.25 - 1 for i = 0…5 in every dtype of torch, rounded as torch rounds them.
TEST(TensorNumbers, AreThoseThatTorchWroteInEveryDtype) {
  const auto weights = open_weights(lockstep::testing::source_root() / "tests/golden/weights/dtypes.pt");
  ASSERT_EQ(weights.tensors().size(), 16U);
  for (const auto& each : weights.tensors()) {
    const std::size_t step = each.dtype == "C64" ? 2 : 1;
    std::vector<double> numbers(count_numbers(each.dtype, each.bytes));
    ASSERT_EQ(numbers.size(), 6 * step);
    decode_numbers(each.dtype, each.bytes, 0, numbers);
    const bool is_floating = each.dtype.find('F') != std::string::npos || each.dtype == "C64";
    const bool is_signed = each.dtype[0] == 'I';
    // Unsigned types cannot hold the -1, so they are left out.
    for (std::size_t i = is_floating || is_signed ? 0 : 4; i < 6; ++i) {
      const double value = 0.25 * static_cast<double>(i) - 1;
      const double wanted = is_floating ? value : each.dtype == "BOOL" ? (value != 0 ? 1 : 0) : std::trunc(value);
      EXPECT_EQ(numbers[i * step], wanted) << each.dtype << " " << i;
    }
  }
}

TEST(TensorNumbers, KnowSubnormalsAndWhatIsNoNumber) {
  const std::vector<std::uint16_t> half = {0x0001, 0x8001, 0x7c00, 0xfc00, 0x7e00, 0x7bff};
  std::vector<double> numbers(half.size());
  decode_numbers("F16", std::as_bytes(std::span(half)), 0, numbers);
  EXPECT_EQ(numbers[0], std::ldexp(1, -24));
  EXPECT_EQ(numbers[1], -std::ldexp(1, -24));
  EXPECT_EQ(numbers[2], std::numeric_limits<double>::infinity());
  EXPECT_EQ(numbers[3], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(numbers[4]));
  EXPECT_EQ(numbers[5], 65504);
  const std::vector<std::uint8_t> eighth = {0x01, 0x7e, 0x7f, 0xff};
  numbers.resize(eighth.size());
  decode_numbers("F8_E4M3", std::as_bytes(std::span(eighth)), 0, numbers);
  EXPECT_EQ(numbers[0], std::ldexp(1, -9));
  EXPECT_EQ(numbers[1], 448);
  EXPECT_TRUE(std::isnan(numbers[2]) && std::isnan(numbers[3]));
}

TEST(TensorDifference, CountsNumbersAndFindsTheLargest) {
  std::vector<float> a(5000, 1);
  auto b = a;
  EXPECT_EQ(tensor_difference(tensor("F32", a), tensor("F32", b)).different, 0U);
  b[3] = 1.5;
  b[4999] = -1;
  const auto found = tensor_difference(tensor("F32", a), tensor("F32", b));
  EXPECT_EQ(found.numbers, 5000U);
  EXPECT_EQ(found.different, 2U);
  EXPECT_EQ(found.max_abs, 2);
  EXPECT_EQ(found.not_finite, 0U);
}

TEST(TensorDifference, KeepsNaNApart) {
  const float nan = std::nanf("");
  const auto found = tensor_difference(tensor("F32", std::vector<float>{nan, nan, 1}),
                                       tensor("F32", std::vector<float>{nan, 2, 1.25}));
  EXPECT_EQ(found.different, 2U);
  EXPECT_EQ(found.not_finite, 1U);
  EXPECT_EQ(found.max_abs, 0.25);
}

TEST(TensorDifference, IsExactForLargeWholeNumbers) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 60U;
  const auto found = tensor_difference(tensor("I64", std::vector<std::int64_t>{kLarge, -1}),
                                       tensor("I64", std::vector<std::int64_t>{kLarge + 1, 1}));
  EXPECT_EQ(found.different, 2U);
  EXPECT_EQ(found.max_abs, 2);
}

TEST(TensorDifference, ComparesValuesWhereDtypesDiffer) {
  const auto found = tensor_difference(tensor("F32", std::vector<float>{1, 1.001F}),
                                       tensor("BF16", std::vector<std::uint16_t>{0x3f80, 0x3f80}));
  EXPECT_EQ(found.different, 1U);
  EXPECT_NEAR(found.max_abs, 0.001, 1e-6);
}

}  // namespace
}  // namespace lockstep
