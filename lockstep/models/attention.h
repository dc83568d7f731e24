// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// Returns scaled dot-product attention with `heads` heads. `dropout` is the dropout probability of the attention
/// weights.
///
/// Shape: query, key and value [N, length, width]; returns the same.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t heads,
                     double dropout);

}  // namespace lockstep
