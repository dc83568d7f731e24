// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/script/script_findings.h"

namespace lockstep {

/// Checks the form of a script, its `#SBATCH` lines as text, its output folders, and the lines that were not
/// understood.
void check_script_text(const ScriptContext& of, ScriptFindings& findings);

}  // namespace lockstep
