// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the path of the `lockstep` program that is running.
struct LockstepProgram {
  std::filesystem::path path;
  std::string version;  ///< "0.1.0"
};

/// Returns the path of `lockstep-train`. It is $LOCKSTEP_TRAINER, or else a build for the Python interpreter that
/// $LOCKSTEP_PYTHON names, or else the one beside `lockstep`, or else a build of `lockstep setup`. Of several builds it
/// is the one for the container in which this process runs, or for the active Python, or the latest one.
///
/// Throws: Error(kEnvironment) if no trainer is found, or if $LOCKSTEP_TRAINER is not a program.
std::string trainer_program(const LockstepProgram& lockstep, const Environment& env);

}  // namespace lockstep
