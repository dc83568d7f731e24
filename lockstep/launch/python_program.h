// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the path of the user's Python interpreter. It is LOCKSTEP_PYTHON, or else that of the active environment, or
/// else `python3`.
///
/// Throws: Error(kEnvironment) if LOCKSTEP_PYTHON cannot be started, or no Python is found.
std::string users_python(const Environment& env);

/// Returns the folder `lockstep_host`, whose modules that interpreter runs. The folder is beside this program, or in an
/// installation's data folder.
///
/// Throws: Error(kEnvironment) if there is no folder `lockstep_host`.
std::filesystem::path python_host_folder();

}  // namespace lockstep
