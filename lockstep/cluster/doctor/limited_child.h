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

/// Runs `work` in a forked process, which can write to a pipe. When the time is up, it kills the process and its
/// descendants. If not even SIGKILL ends one, because it is in a driver's call, it is left behind, so this never waits
/// longer. The process exits with the code that `work` returns.
///
/// Blocks: until it has ended, `limit` at most. Threads: none but the caller's may run.
/// Throws: Error(kEnvironment) with the system's reason if no process can be started.
LimitedChild run_limited(const std::function<int(int pipe)>& work, std::chrono::milliseconds limit);

}  // namespace lockstep
