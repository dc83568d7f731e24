// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "lockstep/cluster/script/batch_file.h"

namespace lockstep {

/// Follows the commands of shell text from top to bottom. `inherited` are the variables that are set at the beginning.
///
/// A variable that is assigned in a condition or a loop has no known value afterwards. Functions are not followed.
ScriptFacts read_script_facts(std::string_view text, const ShellVariables& inherited = {});

}  // namespace lockstep
