// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// While an object of this class lives, a backward pass adds only zeros to the gradients. A loss that counts nothing
/// may not be finite, and 0 times NaN is NaN.
class ZeroGradients {
 public:
  /// `parameters` must outlive this object.
  explicit ZeroGradients(const std::vector<at::Tensor>& parameters);
  ~ZeroGradients();
  ZeroGradients(const ZeroGradients&) = delete;
  ZeroGradients& operator=(const ZeroGradients&) = delete;

 private:
  const std::vector<at::Tensor>& parameters_;
  std::vector<unsigned> places_;
};

}  // namespace lockstep
