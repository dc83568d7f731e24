// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"

namespace lockstep {

/// True if a setting of the recipe names a class or function in Python.
bool needs_python(const Recipe& recipe);

/// If the recipe needs Python, and this process does not run in Python, it is replaced by a Python interpreter. That is
/// LOCKSTEP_PYTHON, or else the interpreter of the active environment, or else `python3`. The trainer starts again
/// there with the same arguments.
///
/// Throws: Error(kEnvironment) if there is no interpreter, or if this Lockstep was built without Python.
void become_python_if_needed(const Recipe& recipe, const TrainerProcess& process);

}  // namespace lockstep
