// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
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
  std::chrono::milliseconds grace{1000};  ///< From SIGTERM to SIGKILL once a rank has failed.
};

/// Starts the ranks, waits for all of them, and leaves none behind.
///
/// Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT, OMP_NUM_THREADS
/// where it is unset, and runs on the cores nearest to its device, where it has one. Standard output and
/// error go through whole lines at a time. SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 to this process go on to every rank.
/// When a rank ends with a code other than 0 and 75, or by a signal, the others are stopped within 2 s and the last
/// lines of the first failing one are shown. Where this process dies, the kernel ends the ranks.
///
/// Blocks:  until the last rank has ended.
/// Returns: 0; 75 where any rank ended with 75 and none failed; else the first failing rank's code, 128 + n for signal
/// n. Throws:  Error(kUsage) where ranks < 1 or command is empty; Error(kEnvironment) where the program cannot be
/// started.
int run_local(const LocalJob& job, const Environment& env, const Log& log);

}  // namespace lockstep
