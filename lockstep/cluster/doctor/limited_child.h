// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// The end of a child process that had a time limit.
struct LimitedChild {
  std::optional<int> exit_code{};  ///< 128 + n if signal n ended it. Absent if the time was up.
  std::string said{};              ///< All that came through its pipe until then.
};

/// Runs `work` in a forked child process, which can write to a pipe. The child exits with the code that `work` returns.
/// When the time is up, the child and its descendants are killed. A process that hangs in a driver's call ignores even
/// SIGKILL. Then it is left behind, so that this function never waits longer than `limit`.
///
/// Blocks: until the child has ended, `limit` at most. Threads: fork() needs a process without other threads than the
///         caller's.
/// Throws: Error(kEnvironment) with the system's reason if no process can be started.
LimitedChild run_limited(const std::function<int(int pipe)>& work, std::chrono::milliseconds limit);

}  // namespace lockstep
