// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/job/submit_request.h"
#include "lockstep/cluster/script/script_findings.h"

namespace lockstep {

/// The request for `lockstep submit` that replaces a batch script.
struct OurRequest {
  SubmitRequest request{};
  std::vector<std::string> arguments{};  ///< The command as a person types it, such as "lockstep", "submit", "--nodes",
                                         ///< "4".
  std::vector<std::string> left_out{};   ///< Lines of the script that ours does not take over, each with the reason.
};

/// Turns a script into a request. Settings in `flags` override those of the script.
///
/// Throws: Error(kUsage) if the script starts no program, or if `flags` holds a program, a recipe or a sweep.
OurRequest our_request(const ScriptContext& of, const SubmitRequest& flags);

}  // namespace lockstep
