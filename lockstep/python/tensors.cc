// SPDX-License-Identifier: Apache-2.0
#include "lockstep/python/tensors.h"

#include <torch/csrc/autograd/python_variable.h>

#include "lockstep/base/error.h"

namespace lockstep {

pybind11::object to_python(const at::Tensor& tensor) {
  auto object = pybind11::reinterpret_steal<pybind11::object>(THPVariable_Wrap(tensor));
  if (!object) throw pybind11::error_already_set();
  return object;
}

const at::Tensor& to_tensor(pybind11::handle object) {
  LOCKSTEP_ASSERT(is_tensor(object));
  return THPVariable_Unpack(object.ptr());
}

bool is_tensor(pybind11::handle object) { return THPVariable_Check(object.ptr()); }

}  // namespace lockstep
