// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace lockstep {

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t heads,
                     double dropout) {
  const auto samples = query.size(0), length = query.size(1), width = query.size(2);
  const auto split = [&](const at::Tensor& x) {
    return x.view({samples, length, heads, width / heads}).transpose(1, 2);
  };
  return at::scaled_dot_product_attention(split(query), split(key), split(value), {}, dropout)
      .transpose(1, 2)
      .reshape({samples, length, width});
}

}  // namespace lockstep
