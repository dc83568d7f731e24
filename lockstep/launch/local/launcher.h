// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/healing.h"

namespace lockstep {

/// Ranks of one program on this machine.
struct LocalJob {
  std::vector<std::string> command;    ///< The program and its arguments. PATH is searched.
  int ranks = 1;                       ///< At least 1.
  bool owns_store = false;             ///< True for our ranks. The supervisor then serves the run's store to them, on
                                       ///< 127.0.0.1.
  std::filesystem::path run_dir{};     ///< The folder for the run's secret, what the watch reports, and requests. If
                                       ///< empty, the secret is in the cache folder, and rank 0's page may name one.
  std::filesystem::path log_folder{};  ///< The folder for rank-NNNN.log, which also gets each rank's standard error.
                                       ///< Empty for none.
  std::optional<HealingLimits> healing{};       ///< Ranks that die are started again. They need `owns_store`.
  std::map<std::string, int> descriptors{};     ///< Rank 0 inherits these, and finds their numbers in these variables.
  std::chrono::milliseconds cause_grace{500};   ///< Time from the first rank that ended because of another to SIGTERM,
                                                ///< in which that other one may end.
  std::chrono::milliseconds grace{1000};        ///< From SIGTERM to SIGKILL once a rank has failed.
  std::chrono::milliseconds stop_grace{60000};  ///< From a SIGTERM or SIGINT of the user's to SIGKILL.
};

/// Returns LocalJob::stop_grace as LOCKSTEP_STOP_GRACE gives it in seconds, or its default.
///
/// Throws: Error(kEnvironment) if the variable is not a number of seconds.
std::chrono::milliseconds stop_grace(const Environment& env);

/// Starts the ranks, waits for all of them, and leaves none behind.
///
/// Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT, and
/// OMP_NUM_THREADS if it is unset. If it has a device, it runs on the cores nearest to it. Standard output and error
/// are passed on in whole lines. SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 to this process are passed on to every rank. If a
/// rank ends with a code other than 0 and 75, or by a signal, the others are stopped within 2 s, and the last lines of
/// the first failing one are shown. A rank with code 7 only lost a peer, and one whose page says so was told of
/// another's error. If another fails in these 2 s by itself, that one counts as the first. If this process dies, the
/// kernel ends the ranks.
///
/// With `healing` a rank that dies is started again, if all ranks have said that they can be replaced (RankMemory),
/// none has ended, and nobody has asked for a stop. Codes 2, 3, 5 and 7 are not healed, since the next process would
/// end in the same way, or has only lost a peer. The new process gets LOCKSTEP_GENERATION.
///
/// Ranks that are still there `stop_grace` after the first SIGTERM or SIGINT, a frozen one for example, are named and
/// killed. They count as ended by that signal.
///
/// Blocks: until the last rank has ended. Returns 0, or 75 if any rank ended with 75 and none failed. Otherwise it is
/// the first failing rank's code, 128 + n for signal n.
/// Throws: Error(kUsage) if ranks < 1 or command is empty; Error(kEnvironment) if the program cannot be started.
int run_local(const LocalJob& job, const Environment& env, const Log& log);

}  // namespace lockstep
