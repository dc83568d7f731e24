// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/python_start.h"

#include <torch/version.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lockstep/base/own_file.h"
#include "lockstep/launch/program.h"
#include "lockstep/launch/python_program.h"

namespace lockstep {

namespace fs = std::filesystem;

// A Python data set has processes of its own.
bool needs_python(const Recipe& recipe) {
  return std::ranges::any_of(recipe.python_keys(), [](const auto& key) { return !key.starts_with("data."); });
}

void become_python_if_needed(const Recipe& recipe, const TrainerProcess& process) {
  if (process.python != nullptr || !needs_python(recipe)) return;
  const auto python = users_python(process.env);
  const auto own = own_file().parent_path();
  const std::array<fs::path, 2> libraries{own, (own / LOCKSTEP_LIBRARIES_FROM_PROGRAMS).lexically_normal()};
  std::vector<std::string> command = {python, python_host_folder().string(),
                                      libraries[0].string() + ":" + libraries[1].string(), TORCH_VERSION};
  command.insert(command.end(), process.arguments.begin(), process.arguments.end());
  become(python, command, process.env);
}

}  // namespace lockstep
