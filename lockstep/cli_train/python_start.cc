// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/python_start.h"

#include <torch/version.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/own_file.h"
#include "lockstep/launch/program.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string python_of(const Environment& env) {
  if (const auto given = env.get("LOCKSTEP_PYTHON"); given && !given->empty()) {
    if (const auto found = program_in_path(*given, env); found && ::access(found->c_str(), X_OK) == 0) return *found;
    throw Error(ErrorKind::kEnvironment, "LOCKSTEP_PYTHON is '" + *given + "', want a Python that can be started",
                "name the Python that has your PyTorch, for example /path/to/venv/bin/python");
  }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const auto folder = env.get(name);
    if (!folder || folder->empty()) continue;
    const auto python = fs::path(*folder) / "bin" / "python";
    if (::access(python.c_str(), X_OK) == 0) return python;
  }
  if (const auto found = program_in_path("python3", env)) return *found;
  throw Error(ErrorKind::kEnvironment, "the recipe names a Python class, and there is no python3 in PATH",
              "activate the environment that has your PyTorch, or set LOCKSTEP_PYTHON to its Python");
}

// Returns the folder that Python runs as a program. It is beside this one, or in an installation's data folder.
fs::path host_folder() {
  const auto own = own_file().parent_path();
  for (const auto& place : {own / "lockstep_host", (own / "../share/lockstep/lockstep_host").lexically_normal()}) {
    std::error_code ignored;
    if (fs::exists(place / "__main__.py", ignored)) return place;
  }
  throw Error(ErrorKind::kEnvironment, "there is no folder lockstep_host beside '" + own_file().string() + "'",
              "this Lockstep was built without Python models; build it for your Python: lockstep setup --python PATH");
}

}  // namespace

bool needs_python(const Recipe& recipe) { return recipe.python_name("model.name") || recipe.python_name("loss.name"); }

void become_python_if_needed(const Recipe& recipe, const TrainerProcess& process) {
  if (process.python != nullptr || !needs_python(recipe)) return;
  const auto python = python_of(process.env);
  const auto own = own_file().parent_path();
  const std::array<fs::path, 2> libraries{own, (own / LOCKSTEP_LIBRARIES_FROM_PROGRAMS).lexically_normal()};
  std::vector<std::string> command = {python, host_folder().string(),
                                      libraries[0].string() + ":" + libraries[1].string(), TORCH_VERSION};
  command.insert(command.end(), process.arguments.begin(), process.arguments.end());
  become(python, command, process.env);
}

}  // namespace lockstep
