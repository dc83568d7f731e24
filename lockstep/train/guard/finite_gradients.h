// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// True if all numbers of all tensors are finite. It reads each number once and writes nothing. Tensors of integers are
/// finite. Blocks: for tensors on a device, until it is known.
bool all_finite(const std::vector<at::Tensor>& tensors);

/// Sets `found` to 1 if a gradient on the device is not finite, else to 0, and changes nothing else. It does not wait,
/// and can be recorded. Shape: found [1] float.
void find_nonfinite(const std::vector<at::Tensor>& gradients, at::Tensor& found);

}  // namespace lockstep
