// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/guard/finite_gradients.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {
namespace {

// In IEEE 754, infinities and NaNs have all bits of the exponent set, and no other number has. A block has no branch
// and no early end, so the compiler can vectorize its loop.
template <typename Word>
bool all_finite(const Word* words, std::int64_t count, Word exponent) {
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const auto end = std::min(begin + kBlock, count);
    Word bad = 0;
    for (std::int64_t i = begin; i < end; ++i) bad |= static_cast<Word>((words[i] & exponent) == exponent);
    if (bad != 0) return false;
  }
  return true;
}

bool is_finite(const at::Tensor& tensor) {
  if (!at::isFloatingType(tensor.scalar_type())) return true;
  if (!tensor.is_cpu() || !tensor.is_non_overlapping_and_dense()) return at::isfinite(tensor).all().item<bool>();
  const auto* data = tensor.const_data_ptr();
  const auto count = tensor.numel();
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return all_finite(static_cast<const std::uint32_t*>(data), count, std::uint32_t{0x7f800000});
    case at::kDouble:
      return all_finite(static_cast<const std::uint64_t*>(data), count, std::uint64_t{0x7ff0000000000000});
    case at::kHalf:
      return all_finite(static_cast<const std::uint16_t*>(data), count, std::uint16_t{0x7c00});
    case at::kBFloat16:
      return all_finite(static_cast<const std::uint16_t*>(data), count, std::uint16_t{0x7f80});
    default:
      return at::isfinite(tensor.to(at::kFloat)).all().item<bool>();
  }
}

}  // namespace

bool all_finite(const std::vector<at::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  return std::ranges::all_of(tensors, is_finite);
}

void find_nonfinite(const std::vector<at::Tensor>& gradients, at::Tensor& found) {
  const torch::NoGradGuard no_grad;
  found.zero_();
  if (gradients.empty()) return;
  // This is the kernel of loss scaling, called with scale 1. One launch checks many tensors.
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, at::ones_like(found));
}

}  // namespace lockstep
