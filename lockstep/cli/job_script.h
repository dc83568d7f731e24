// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cli/commands.h"
#include "lockstep/cluster/job/submit_request.h"

namespace lockstep::cli {

/// A batch script that somebody has, and how to report on it.
struct JobScriptCommand {
  std::string path{};
  std::string cluster = "auto";
  bool is_json = false;
};

/// Prints the findings on a batch script. With an error among them, the exit code is 4.
///
/// Throws: Error(kUsage) if there is no such file; as ProfileLibrary::chosen().
void print_script_findings(const JobScriptCommand& command, Context& context);

/// Prints a batch script beside ours with each difference, and the command that submits ours. Submits nothing.
/// `flags` are settings that come before those of the script.
///
/// Throws: as print_script_findings(); as plan_submission().
void print_script_beside_ours(const JobScriptCommand& command, const SubmitRequest& flags, Context& context);

}  // namespace lockstep::cli
