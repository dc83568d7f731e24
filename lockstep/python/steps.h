// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/python/in_python.h"
#include "lockstep/python/python_module.h"
#include "lockstep/train/task/own_steps.h"

namespace lockstep {

/// Makes the steps of a Python module from an object lockstep_host.steps.Steps. The GIL must be held.
///
/// Throws: only the steps throw, a ModelException with the traceback if Python throws.
std::unique_ptr<OwnSteps> make_python_steps(std::shared_ptr<PythonModule> module, PythonObject steps);

}  // namespace lockstep
