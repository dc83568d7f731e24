// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// The output and the exit code of a short-lived process.
struct ProcessResult {
  int exit_code = 0;  ///< 128 + n if signal n ended it. 127 if the program is not in PATH.
  std::string output;
  std::string errors;
};

/// Runs `command` and waits for it. The program is found through PATH of `env`, gets exactly these variables, and has
/// an empty standard input.
///
/// Throws: Error(kEnvironment) with the system's reason if no process can be started.
ProcessResult run_process(const std::vector<std::string>& command, const Environment& env);

/// Runs `command` in the same way, but passes standard output to `take` as it arrives. The result's `output` stays
/// empty. If `take` throws, the pipe is closed, the process is waited for, and the exception is rethrown.
ProcessResult run_process(const std::vector<std::string>& command, const Environment& env,
                          const std::function<void(std::string_view)>& take);

/// Returns the path of the program that runs as this process.
std::filesystem::path this_program();

}  // namespace lockstep
