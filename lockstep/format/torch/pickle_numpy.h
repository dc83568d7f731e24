// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/format/torch/pickle_value.h"

namespace lockstep {

/// A NumPy array in a pickle.
struct NumpyArray {
  std::string dtype;                 ///< The dtype under its name in safetensors, such as U8, F32 or I64.
  std::vector<std::int64_t> shape;   ///< Row-major.
  std::span<const std::byte> bytes;  ///< Of the pickle.
};

/// The rule for names that Pickle::read() uses for a data set. It allows NumPy arrays and Python's own plain types.
bool is_numpy_name(std::string_view name);

/// Returns the array that `value` holds, as NumPy of any version pickles it, from Python 2 and 3, with protocols 2 to
/// 5.
///
/// Throws: Error(kData) with `where`, the value found and wanted, if `value` is not an array, or if the array has other
///         than plain little-endian numbers, is in Fortran order, or has another number of bytes than its shape.
NumpyArray numpy_array(const PickleValue& value, const std::string& where);

}  // namespace lockstep
