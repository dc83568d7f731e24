// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/script/script_findings.h"

namespace lockstep {

/// Checks what a job asks for against the profile: account, time, nodes, devices, cores, memory.
void check_script_shape(const ScriptContext& of, ScriptFindings& findings);

}  // namespace lockstep
