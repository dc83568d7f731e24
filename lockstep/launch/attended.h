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

/// Runs `command` as a child, which dies with this process, and waits for it. `program` is the path of its first word,
/// `env` its variables. Its standard error goes through this process, unchanged. With a `log`, a descriptor that
/// appends, so does its standard output, and both are also written there. Signals that ask to stop are passed on if
/// they are sent to this process alone, or came before the child existed. A SIGINT outside a Slurm step comes from the
/// terminal, which sends it to both.
///
/// Once the program has ended, this process ignores those signals, since they were the program's.
///
/// `each_second` is called about once a second with the child's number. It must not throw.
///
/// Blocks:  until the program has ended. Processes that it leaves behind are not waited for.
/// Throws:  Error(kEnvironment) if no process can be started.
ProgramEnd attended(const std::string& program, const std::vector<std::string>& command, const Environment& env,
                    int log = -1, const std::function<void(pid_t)>& each_second = {});

}  // namespace lockstep
