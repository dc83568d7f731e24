// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"

namespace lockstep {

/// True if the recipe names something in Python.
bool needs_python(const Recipe& recipe);

/// If the recipe needs a Python and none hosts this process, this process becomes one that does. It is LOCKSTEP_PYTHON,
/// or else the active environment's, or else `python3`. The process starts over there with the same arguments.
///
/// Throws: Error(kEnvironment) if there is no Python, or this Lockstep was built without that part.
void become_python_if_needed(const Recipe& recipe, const TrainerProcess& process);

}  // namespace lockstep
