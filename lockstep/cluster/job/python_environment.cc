// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/python_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return !fs::is_directory(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

bool is_open_python(const std::string& word) {
  constexpr auto kBrought = std::to_array<std::string_view>({"torchrun", "accelerate", "deepspeed"});
  if (word.find('/') != std::string::npos) return false;
  return word.starts_with("python") || std::ranges::find(kBrought, word) != kBrought.end();
}

fs::path active_environment(const Environment& env) {
  // A venv may be made from a conda environment, and then both are active. The venv counts.
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const auto folder = env.get(name).value_or("");
    if (folder.starts_with('/')) return folder;
  }
  return {};
}

std::vector<std::string> with_program_of(const fs::path& environment, std::vector<std::string> command) {
  LOCKSTEP_ASSERT(!command.empty());
  if (environment.empty() || command.front().find('/') != std::string::npos) return command;
  const auto path = environment / "bin" / command.front();
  if (is_program(path)) command.front() = path.string();
  return command;
}

void check_conda(const std::string& conda) {
  if (conda.find('/') == std::string::npos || is_program(fs::path(conda) / "bin/python")) return;
  throw Error(ErrorKind::kEnvironment, "there is no Python environment '" + conda + "': it has no bin/python",
              "check the path; `conda env list` prints those that there are");
}

}  // namespace lockstep
