// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli_train/trainer_process.h"

namespace lockstep {

/// Runs the program lockstep-train with this command line, and returns the exit code. `python` is null if no Python
/// hosts this process.
int run_program(int argc, const char* const* argv, PythonHost* python);

}  // namespace lockstep
