// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace lockstep {

/// Convert a tensor to a Python object and back. Both share its memory. The GIL must be held.
pybind11::object to_python(const at::Tensor& tensor);
/// LOCKSTEP_ASSERT: the object is a tensor.
const at::Tensor& to_tensor(pybind11::handle object);
bool is_tensor(pybind11::handle object);

}  // namespace lockstep
