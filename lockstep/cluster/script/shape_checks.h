// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/script/script_findings.h"

namespace lockstep {

/// Checks a job's requests against the profile, on account, time, nodes, devices, cores and memory.
void check_script_shape(const ScriptContext& of, ScriptFindings& findings);

}  // namespace lockstep
