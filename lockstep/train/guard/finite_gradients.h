// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// True if all numbers of all tensors are finite. Tensors of integers count as finite. It reads each number once and
/// writes nothing. Blocks: for tensors on a device, until the device has checked them.
bool all_finite(const std::vector<at::Tensor>& tensors);

/// Sets `found` to 1 if a gradient on the device is not finite, else to 0. No other tensor changes. The call does not
/// wait for the device, and can be recorded. Shape: found [1] float.
void find_nonfinite(const std::vector<at::Tensor>& gradients, at::Tensor& found);

}  // namespace lockstep
