// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// How a child process ended that was given so much time.
struct LimitedChild {
  std::optional<int> exit_code{};  ///< 128 + n if signal n ended it; absent if the time was up.
  std::string said{};              ///< All that came through its pipe until then.
};

/// Runs `work` in a forked process, with the end of a pipe to write to, and kills it and what it started when the time
/// is up. One that not even SIGKILL ends, in a driver's call, is left behind: this never waits longer.
/// The process ends with the code that `work` returns.
///
/// Blocks: until it has ended, `limit` at most. Threads: none but the caller's may run.
/// Throws: Error(kEnvironment) with the system's reason if no process can be started.
LimitedChild run_limited(const std::function<int(int pipe)>& work, std::chrono::milliseconds limit);

}  // namespace lockstep
