// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/format/safetensors.h"

namespace lockstep {

/// The numbers of a tensor's bytes, from `first` on, as many as `out` takes; each number of a complex dtype counts as
/// two. Exact for all dtypes but I64 and U64, which lose what a double cannot hold.
void decode_numbers(std::string_view dtype, std::span<const std::byte> bytes, std::size_t first, std::span<double> out);

/// How many numbers `bytes` are in decode_numbers().
std::size_t count_numbers(std::string_view dtype, std::span<const std::byte> bytes);

/// How two tensors of one shape differ, number by number.
struct TensorDifference {
  std::size_t numbers = 0;
  std::size_t different = 0;   ///< Bits differ, or values where the dtypes do.
  std::size_t not_finite = 0;  ///< Of those, where either is NaN or infinite: they do not count in max_abs.
  double max_abs = 0;          ///< Of a - b.
};

/// Shape: a and b have the same one; dtypes may differ, complex with others excepted.
TensorDifference tensor_difference(const TensorEntry& a, const TensorEntry& b);

}  // namespace lockstep
