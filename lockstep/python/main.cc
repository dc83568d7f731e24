// SPDX-License-Identifier: Apache-2.0
// The module lockstep_trainer: what lockstep_host/__main__.py calls once its Python has loaded PyTorch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "lockstep/base/map_each.h"
#include "lockstep/cli_train/program.h"
#include "lockstep/python/host.h"

namespace {

int run(const std::vector<std::string>& arguments) {
  auto words = lockstep::map_each(arguments, [](const std::string& word) { return word.c_str(); });
  const auto count = static_cast<int>(words.size());
  words.push_back(nullptr);
  const pybind11::gil_scoped_release unlocked;
  lockstep::ThisPython python;
  return lockstep::run_program(count, words.data(), &python);
}

}  // namespace

PYBIND11_MODULE(lockstep_trainer, module) {
  module.def("run", &run,
             "lockstep-train's main: takes its words, the program's name first, and returns the exit code");
}
