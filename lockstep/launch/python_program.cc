// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/python_program.h"

#include <unistd.h>

#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/own_file.h"
#include "lockstep/launch/program.h"

namespace lockstep {

namespace fs = std::filesystem;

std::string users_python(const Environment& env) {
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
  throw Error(ErrorKind::kEnvironment, "the recipe names something in Python, and there is no python3 in PATH",
              "activate the environment that has your PyTorch, or set LOCKSTEP_PYTHON to its Python");
}

fs::path python_host_folder() {
  const auto own = own_file().parent_path();
  for (const auto& place : {own / "lockstep_host", (own / "../share/lockstep/lockstep_host").lexically_normal()}) {
    std::error_code ignored;
    if (fs::exists(place / "__main__.py", ignored)) return place;
  }
  throw Error(ErrorKind::kEnvironment, "there is no folder lockstep_host beside '" + own_file().string() + "'",
              "this Lockstep was built without Python models; build it for your Python: lockstep setup --python PATH");
}

}  // namespace lockstep
