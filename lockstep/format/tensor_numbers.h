// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/format/safetensors.h"

namespace lockstep {

/// Converts a tensor's elements to doubles, from `first` on, as many as `out` takes. Each element of a complex dtype
/// counts as two. The result is exact, except for I64 and U64 beyond a double's precision.
void decode_numbers(std::string_view dtype, std::span<const std::byte> bytes, std::size_t first, std::span<double> out);

/// Returns the number of elements in `bytes`, as decode_numbers() counts them.
std::size_t count_numbers(std::string_view dtype, std::span<const std::byte> bytes);

/// The result of comparing two tensors of one shape, element by element.
struct TensorDifference {
  std::size_t numbers = 0;
  std::size_t different = 0;   ///< Bits differ, or values if the dtypes do.
  std::size_t not_finite = 0;  ///< Of those, elements where either is NaN or infinite. They do not count in max_abs.
  double max_abs = 0;          ///< Of a - b.
};

/// Compares two tensors. Their dtypes may differ, but a complex tensor can only be compared with another complex one.
TensorDifference tensor_difference(const TensorEntry& a, const TensorEntry& b);

}  // namespace lockstep
