// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// Scaled dot-product attention in `heads` parts of the width. `dropout` is of its weights.
///
/// Shape: query, key and value [N, length, width]; returns the same.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t heads,
                     double dropout);

}  // namespace lockstep
