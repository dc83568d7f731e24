// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"

namespace lockstep {

/// Ranks of one program on this machine.
struct LocalJob {
  std::vector<std::string> command;    ///< The program and its arguments; found through PATH.
  int ranks = 1;                       ///< At least 1.
  bool owns_store = false;             ///< Ours: the supervisor serves the run's store to the ranks, on 127.0.0.1.
  std::filesystem::path run_dir{};     ///< Where the run's secret goes; empty: into the cache folder.
  std::filesystem::path log_folder{};  ///< Where each rank's standard error goes as rank-NNNN.log too; empty for none.
  std::map<std::string, int> descriptors{};  ///< Rank 0 inherits these, and finds their numbers in these variables.
  std::chrono::milliseconds cause_grace{
      500};                               ///< From the first lost peer to SIGTERM: the rank that caused it may end.
  std::chrono::milliseconds grace{1000};  ///< From SIGTERM to SIGKILL once a rank has failed.
  std::chrono::milliseconds stop_grace{60000};  ///< From a SIGTERM or SIGINT of the user's to SIGKILL.
};

/// Returns LocalJob::stop_grace as LOCKSTEP_STOP_GRACE gives it in seconds, or its default.
///
/// Throws: Error(kEnvironment) if the variable is no number of seconds.
std::chrono::milliseconds stop_grace(const Environment& env);

/// Starts the ranks, waits for all of them, and leaves none behind.
///
/// Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT, OMP_NUM_THREADS
/// where it is unset, and runs on the cores nearest to its device, where it has one. Standard output and
/// error go through whole lines at a time. SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 to this process go on to every rank.
/// When a rank ends with a code other than 0 and 75, or by a signal, the others are stopped within 2 s and the last
/// lines of the first failing one are shown. A rank with code 7 only lost a peer: another that fails in these 2 s with
/// a code of its own is the first. Where this process dies, the kernel ends the ranks.
///
/// Ranks that are still there `stop_grace` after the first SIGTERM or SIGINT, a frozen one for example, are named and
/// killed. They count as ended by that signal.
///
/// Blocks:  until the last rank has ended.
/// Returns: 0; 75 where any rank ended with 75 and none failed; else the first failing rank's code, 128 + n for signal
/// n.
/// Throws:  Error(kUsage) where ranks < 1 or command is empty; Error(kEnvironment) where the program cannot be
/// started.
int run_local(const LocalJob& job, const Environment& env, const Log& log);

}  // namespace lockstep
