// SPDX-License-Identifier: Apache-2.0
// The module lockstep_trainer. lockstep_host/__main__.py calls it once its Python has loaded PyTorch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "lockstep/base/log.h"
#include "lockstep/base/map_each.h"
#include "lockstep/cli_train/program.h"
#include "lockstep/python/host.h"

namespace {

// If a backward function in Python raises an exception, LibTorch leaves it as Python's current exception, and throws
// only its text in C++.
void tell_what_is_left() {
  if (PyErr_Occurred() == nullptr) return;
  const pybind11::error_already_set error;
  if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
  const auto text = pybind11::module_::import("lockstep_host.errors").attr("told")(error.value()).cast<std::string>();
  lockstep::Log(2, "lockstep: ").info(text);
}

int run(const std::vector<std::string>& arguments) {
  auto words = lockstep::map_each(arguments, [](const std::string& word) { return word.c_str(); });
  const auto count = static_cast<int>(words.size());
  words.push_back(nullptr);
  int code = 0;
  {
    const pybind11::gil_scoped_release unlocked;
    lockstep::ThisPython python;
    code = lockstep::run_program(count, words.data(), &python);
  }
  tell_what_is_left();
  return code;
}

}  // namespace

PYBIND11_MODULE(lockstep_trainer, module) {
  module.def("run", &run,
             "lockstep-train's main: takes its words, the program's name first, and returns the exit code");
}
