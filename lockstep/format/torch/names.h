// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace lockstep {

/// True for the classes and functions that torch.save names for weights, and for simple ones that programs such as
/// Lightning add. None of them is ever called. The list is a little longer than that of torch.load(weights_only=True).
bool is_torch_name(std::string_view name);

/// Returns the dtype of a storage class: "F32" for "torch.FloatStorage", and "" for storages of bytes. Nothing for
/// other names.
std::optional<std::string_view> dtype_of_storage(std::string_view name);

/// Returns "F8_E4M3" for "torch.float8_e4m3fn". Nothing if safetensors has no name for the dtype.
std::optional<std::string_view> dtype_of_torch_name(std::string_view name);

/// Returns "FloatStorage" for "F32". Nothing for dtypes that torch keeps in storages of bytes or does not have.
std::optional<std::string_view> storage_of_dtype(std::string_view dtype);

}  // namespace lockstep
