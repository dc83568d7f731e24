// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// A script that completes the sub-commands, options and settings of `app`, for "bash", "zsh" or "fish". Made from
/// `app` itself, so that it offers what there is and nothing else.
///
/// Throws: Error(kUsage) for another shell.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace lockstep::cli
