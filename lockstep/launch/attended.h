// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// How an attended program ended.
struct ProgramEnd {
  int code = 0;                     ///< As a shell has it: 128 + n if signal n ended it.
  int signal = 0;                   ///< 0 if it ended by itself.
  std::vector<std::string> last{};  ///< The last lines that it wrote to standard error.
};

/// Runs `command` as a child, which dies with this process, and waits for it. `program` is the path of its first word,
/// `env` its variables. What it writes to standard error goes through this process, unchanged. With a `log`, a
/// descriptor that appends, so does its standard output, and both go there too. Signals that ask to stop are passed on
/// if they are sent to this process alone, and those that came before the child stood. A SIGINT outside of a Slurm step
/// is the terminal's, which sends it to both.
///
/// Once it has ended, this process ignores those signals: they were the program's.
///
/// Blocks:  until the program has ended. Processes that it leaves behind are not waited for.
/// Throws:  Error(kEnvironment) if no process can be started.
ProgramEnd attended(const std::string& program, const std::vector<std::string>& command, const Environment& env,
                    int log = -1);

}  // namespace lockstep
