// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// The end of an attended program.
struct ProgramEnd {
  int code = 0;                     ///< As a shell reports it, 128 + n if signal n ended it.
  int signal = 0;                   ///< 0 if it ended by itself.
  std::vector<std::string> last{};  ///< The last lines that it wrote to standard error.
};

/// Runs `command` as a child process and waits for it. If this process dies, the child dies too. `program` is the path
/// of the command's first word, and `env` has the child's variables. The child's standard error goes through this
/// process, unchanged. If `log` is given, a descriptor opened for appending, the child's standard output goes through
/// this process too, and both streams are also written to the log. Signals that ask to stop are passed on to the child
/// if they were sent to this process alone, or came before the child existed. Outside a Slurm step a SIGINT is not
/// passed on, since a terminal sends it to both.
///
/// Once the program has ended, this process ignores those signals, since they were meant for the program.
///
/// `each_second` is called about once a second with the child's process id. It must not throw.
///
/// Blocks:  until the program has ended. Processes that the program leaves behind are not waited for.
/// Throws:  Error(kEnvironment) if no process can be started.
ProgramEnd attended(const std::string& program, const std::vector<std::string>& command, const Environment& env,
                    int log = -1, const std::function<void(pid_t)>& each_second = {});

}  // namespace lockstep
