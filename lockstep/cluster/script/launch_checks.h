// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/script/script_findings.h"

namespace lockstep {

/// Checks the lines that start programs, on cores, tasks and devices, torchrun, binding and Python.
void check_script_launch(const ScriptContext& of, ScriptFindings& findings);

}  // namespace lockstep
