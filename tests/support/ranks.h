// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"
#include "lockstep/comm/join.h"
#include "lockstep/launch/socket.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::testing {

/// True if this process is one of the ranks that another process of the same test has started.
inline bool is_rank() { return std::getenv("LOCKSTEP_TEST_RANK") != nullptr; }

struct RanksOptions {
  int world = 2;
  std::set<int> absent = {};         ///< Ranks that are never started.
  Environment::Map variables = {};   ///< Besides the launcher's own.
  std::map<int, int> statuses = {};  ///< Wanted of a rank, as a shell tells it; 0 of all others.
};

/// Runs the present test again in each of `world` processes, with is_rank(), and expects the wanted exit status of
/// each. If a status differs, that rank's output is shown. As with `lockstep launch`, rank 0 inherits the store's bound
/// socket, and all ranks get the path of their secret. Blocks: until all ranks have ended. An alarm ends a rank that
/// hangs.
inline void expect_of_ranks(const RanksOptions& options) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  const TemporaryFolder outputs;
  const auto listener = bind_socket("127.0.0.1");
  constexpr int kInherited = 77;
  std::map<int, pid_t> processes;
  for (int rank = 0; rank < options.world; ++rank) {
    if (options.absent.contains(rank)) continue;
    auto variables = Environment::of_process().all();
    variables["LOCKSTEP_TEST_RANK"] = variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
    variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(options.world);
    variables["MASTER_ADDR"] = "127.0.0.1";
    variables["MASTER_PORT"] = std::to_string(port_of(listener));
    variables["LOCKSTEP_MEETING"] = (outputs.path() / "meeting").string();
    variables["LOCKSTEP_CACHE"] = (outputs.path() / "cache").string();
    variables["LOCKSTEP_LAUNCHER"] = variables["OMP_NUM_THREADS"] = "1";
    if (rank == 0) variables["LOCKSTEP_STORE_FD"] = std::to_string(kInherited);
    for (const auto& [name, value] : options.variables) variables[name] = value;
    std::vector<std::string> entries;
    for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
    std::vector<char*> environment;
    for (auto& entry : entries) environment.push_back(entry.data());
    environment.push_back(nullptr);
    std::vector<std::string> words = {"rank", filter, "--gtest_brief=1"};
    std::vector<char*> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    const auto output = (outputs.path() / std::to_string(rank)).string();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (rank == 0) posix_spawn_file_actions_adddup2(&actions, listener.get(), kInherited);
    ASSERT_EQ(
        ::posix_spawn(&processes[rank], "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  for (const auto& [rank, process] : processes) {
    int raw = 0;
    ASSERT_EQ(::waitpid(process, &raw, 0), process);
    const int status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    const auto wanted = options.statuses.find(rank);
    EXPECT_EQ(status, wanted == options.statuses.end() ? 0 : wanted->second)
        << "rank " << rank << " printed:\n"
        << text_of_file(outputs.path() / std::to_string(rank));
  }
}

/// Returns a group that has only this process.
inline Group one_rank() { return join(Placement{}, Environment{}); }

/// Call this first in a rank. The rank then ends when its parent ends, or when it hangs.
inline void begin_rank() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(100);
}

}  // namespace lockstep::testing

/// A test whose body runs in each of `count` processes that have joined. `group` is their group.
#define RANKS_TEST(suite, name, count)                         \
  static void suite##name##OnEachRank(lockstep::Group& group); \
  TEST(suite, name) {                                          \
    if (!lockstep::testing::is_rank()) {                       \
      lockstep::testing::expect_of_ranks({.world = count});    \
      return;                                                  \
    }                                                          \
    lockstep::testing::begin_rank();                           \
    auto group = lockstep::join();                             \
    suite##name##OnEachRank(group);                            \
  }                                                            \
  static void suite##name##OnEachRank([[maybe_unused]] lockstep::Group& group)
