// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cli/commands.h"
#include "lockstep/cluster/job/submit_request.h"

namespace lockstep::cli {

/// A user's batch script, and the options of the report on it.
struct JobScriptCommand {
  std::string path{};
  std::string cluster = "auto";
  bool is_json = false;
};

/// Prints the findings on a batch script. If one of them is an error, the exit code is 4.
///
/// Throws: Error(kUsage) if there is no such file; as ProfileLibrary::chosen().
void print_script_findings(const JobScriptCommand& command, Context& context);

/// Prints a batch script beside the script that Lockstep would submit, with each difference, and the command to submit
/// that one. Nothing is submitted. `flags` are settings that override those of the script.
///
/// Throws: as print_script_findings(); as plan_submission().
void print_script_beside_ours(const JobScriptCommand& command, const SubmitRequest& flags, Context& context);

}  // namespace lockstep::cli
