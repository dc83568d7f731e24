// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the Python of the user's. It is LOCKSTEP_PYTHON, or else the active environment's, or else `python3`.
///
/// Throws: Error(kEnvironment) if LOCKSTEP_PYTHON cannot be started, or there is none.
std::string users_python(const Environment& env);

/// Returns the folder lockstep_host, which that Python runs. It is beside this program, or in an installation's data
/// folder.
///
/// Throws: Error(kEnvironment) if it is not there.
std::filesystem::path python_host_folder();

}  // namespace lockstep
