// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace lockstep {

/// The names that torch.save writes for weights, and the plain ones that training programs put beside them, as
/// Lightning does. None is ever called: it is a list of what a file of weights may speak of, a little longer than that
/// of torch.load(weights_only=True).
bool is_torch_name(std::string_view name);

/// The dtype of a storage class, "F32" for "torch.FloatStorage", "" for storages of bytes. Nothing for other names.
std::optional<std::string_view> dtype_of_storage(std::string_view name);

/// "F8_E4M3" for "torch.float8_e4m3fn". Nothing for what is no dtype that safetensors names.
std::optional<std::string_view> dtype_of_torch_name(std::string_view name);

/// "FloatStorage" for "F32"; nothing for dtypes that torch keeps in storages of bytes, or has not.
std::optional<std::string_view> storage_of_dtype(std::string_view dtype);

}  // namespace lockstep
