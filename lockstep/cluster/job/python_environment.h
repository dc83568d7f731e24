// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// True if `word` names Python, or a program of a Python environment, without a path. So it does not say which
/// environment is meant. "python" and "torchrun" are such words, "/envs/torch/bin/python" is not.
bool is_open_python(const std::string& word);

/// Returns the folder of the Python environment, a venv or conda, that is active in the submitting shell. Empty if no
/// environment is active.
std::filesystem::path active_environment(const Environment& env);

/// Returns the command with its first word replaced by the absolute path of the program in that environment. The
/// command is unchanged if the environment has no such program, or if the word has a slash.
std::vector<std::string> with_program_of(const std::filesystem::path& environment, std::vector<std::string> command);

/// Checks an environment given by --conda. Throws: Error(kEnvironment) if `conda` is a path where there is no conda
/// environment or venv with a Python interpreter.
void check_conda(const std::string& conda);

}  // namespace lockstep
