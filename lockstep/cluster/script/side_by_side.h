// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/cluster/script/batch_file.h"
#include "lockstep/cluster/script/our_request.h"
#include "lockstep/cluster/script/script_findings.h"

namespace lockstep {

/// A user's batch script, the script that Lockstep makes from it, and the findings.
struct ScriptComparison {
  const BatchFile& theirs;
  const std::string& ours;  ///< The batch script as `lockstep submit` writes it.
  const ScriptFindings& findings;
  const OurRequest& request;
  std::string cluster{};  ///< The profile's name.
  int columns = 80;       ///< Of the terminal. From 160 on the two scripts stand in two columns.
};

/// Returns the output of `lockstep submit --from`. It has the findings, a table of the options that differ with the
/// reason for each, the lines that Lockstep's script leaves out, both scripts, and the command that submits Lockstep's
/// script. Lines of text fit the terminal. Lines of the scripts are unchanged, but are cut in two columns.
std::string side_by_side(const ScriptComparison& of);

}  // namespace lockstep
