// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// What a short-lived command said and ended with.
struct ToolResult {
  int exit_code = 0;  ///< 128 + n where signal n ended it; 127 where it is not there.
  std::string output;
  std::string errors;
};

/// Runs `command`, found through PATH of `env`, with exactly these variables, and waits for it. Its input is empty.
///
/// Throws: Error(kEnvironment) with the system's reason where no process can be started.
ToolResult run_tool(const std::vector<std::string>& command, const Environment& env);

/// The same, but hands the output on as it comes: `output` of the result stays empty. Where `take` throws, the command
/// finds its output closed, is waited for, and the exception goes on.
ToolResult run_tool(const std::vector<std::string>& command, const Environment& env,
                    const std::function<void(std::string_view)>& take);

}  // namespace lockstep
