// SPDX-License-Identifier: Apache-2.0
#include "lockstep/python/in_python.h"

#include <array>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/models/model_exception.h"

namespace py = pybind11;

namespace lockstep {
namespace {

ErrorKind kind_with_code(int code) {
  for (const auto kind : {ErrorKind::kUsage, ErrorKind::kRecipe, ErrorKind::kEnvironment, ErrorKind::kData,
                          ErrorKind::kIo, ErrorKind::kPeer}) {
    if (exit_code(kind) == code) return kind;
  }
  return ErrorKind::kBug;
}

}  // namespace

void throw_python_error(py::error_already_set& error) {
  const auto errors = py::module_::import("lockstep_host.errors");
  const py::object value = error.value();
  if (py::isinstance(value, errors.attr("Refusal"))) {
    throw Error(kind_with_code(value.attr("code").cast<int>()), value.attr("fact").cast<std::string>(),
                value.attr("hint").cast<std::string>());
  }
  // When C code fetches an exception, the traceback is separate. This attaches it.
  if (error.trace()) PyException_SetTraceback(value.ptr(), error.trace().ptr());
  throw ModelException(errors.attr("told")(value).cast<std::string>());
}

}  // namespace lockstep
