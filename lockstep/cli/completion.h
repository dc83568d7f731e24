// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Returns a shell script that completes the sub-commands, options and settings of `app`, for "bash", "zsh" or "fish".
/// It is made from `app` itself, so it offers exactly what exists.
///
/// Throws: Error(kUsage) for another shell.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace lockstep::cli
