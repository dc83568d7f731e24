// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace lockstep {

/// Throws the trainer's exception for `error`. If lockstep_host has refused something, that is an Error. Otherwise it
/// is a ModelException with the traceback. The GIL must be held.
[[noreturn]] void throw_python_error(pybind11::error_already_set& error);

/// Calls `work` with the GIL held. An exception of Python leaves as throw_python_error() makes it.
template <typename Work>
auto in_python(Work&& work) {
  const pybind11::gil_scoped_acquire gil;
  try {
    return work();
  } catch (pybind11::error_already_set& error) {
    throw_python_error(error);
  }
}

/// A reference to a Python object. It may be destroyed without holding the GIL.
class PythonObject {
 public:
  explicit PythonObject(pybind11::object object) : object_(std::move(object)) {}
  PythonObject(PythonObject&& other) noexcept = default;
  PythonObject(const PythonObject&) = delete;
  PythonObject& operator=(const PythonObject&) = delete;
  PythonObject& operator=(PythonObject&&) = delete;
  ~PythonObject() {
    if (!object_) return;
    const pybind11::gil_scoped_acquire gil;
    object_.release().dec_ref();
  }

  /// The GIL must be held.
  const pybind11::object& operator*() const { return object_; }

 private:
  pybind11::object object_;
};

}  // namespace lockstep
