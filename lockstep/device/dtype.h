// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Returns the torch type of a safetensors dtype, one of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
///
/// Throws: Error(kData) for another name.
at::ScalarType scalar_type_of(std::string_view dtype);

/// Returns the dtype of a torch type. Throws: Error(kUsage) for a type without such a name.
std::string dtype_name(at::ScalarType type);

/// Returns the memory of a contiguous tensor on the CPU.
std::span<const std::byte> bytes_of(const at::Tensor& tensor);

/// Copies memory that holds a tensor into a new tensor.
at::Tensor tensor_from(std::string_view dtype, at::IntArrayRef shape, std::span<const std::byte> bytes);

/// "[64, 3, 32, 32]"
std::string shape_text(at::IntArrayRef shape);

}  // namespace lockstep
