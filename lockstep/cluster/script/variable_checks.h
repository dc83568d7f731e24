// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/script/script_findings.h"

namespace lockstep {

/// Checks variables, that is exports, addresses, ports, caches, network interfaces, and those that are known to be
/// harmful.
void check_script_variables(const ScriptContext& of, ScriptFindings& findings);

}  // namespace lockstep
