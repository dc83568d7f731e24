// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/failed_peer.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "lockstep/base/file.h"
#include "lockstep/telemetry/process_tree.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::TemporaryFolder;

RankExit rank_of_step(int rank, int restart = 0, int code = 0) {
  return {.job = "7", .start = 0, .restart = restart, .rank = rank, .node = "n" + std::to_string(rank), .code = code};
}

/// A process that writes a byte each time it is told to, and otherwise waits for ever.
class Task {
 public:
  Task() {
    if (::pipe(pipe_) != 0 || ::pipe(back_) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ != 0) return;
    char byte = 0;
    while (::read(pipe_[0], &byte, 1) == 1) {
      if (::write(back_[1], &byte, 1) != 1) break;
    }
    ::_exit(0);
  }
  ~Task() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (const int fd : {pipe_[0], pipe_[1], back_[0], back_[1]}) ::close(fd);
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  pid_t pid() const { return pid_; }
  void write_something() {
    char byte = 'x';
    ASSERT_EQ(::write(pipe_[1], &byte, 1), 1);
    ASSERT_EQ(::read(back_[0], &byte, 1), 1);
  }
  bool is_killed() const {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid == pid_ && info.si_code == CLD_KILLED;
  }
  /// The kernel takes a moment to end it.
  bool gets_killed() const {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    return info.si_code == CLD_KILLED;
  }

 private:
  int pipe_[2] = {-1, -1};
  int back_[2] = {-1, -1};
  pid_t pid_ = -1;
};

/// Forks a process that holds what its child computes. The child waits for ever. The holder ends with code 7 after it.
pid_t start_holder() {
  const pid_t holder = ::fork();
  if (holder != 0) return holder;
  const pid_t child = ::fork();
  while (child == 0) ::pause();
  int status = 0;
  ::waitpid(child, &status, 0);
  ::_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 7 : 1);
}

/// The parents of two ranks of one step.
struct Parents {
  explicit Parents(int world = 2)
      : dead(rank_of_step(0), world, run.path(), log), own(rank_of_step(1), world, run.path(), log) {}

  /// Looks once a second for so long.
  void look_for(std::chrono::seconds time) {
    for (const auto end = now + time; now < end; now += 1s) own.look(task.pid(), stranger, now);
  }

  TemporaryFolder run;
  Log log;
  FailedPeer dead;
  FailedPeer own;
  Task task;
  pid_t stranger = ::getpid();  // A page may have any number.
  FailedPeer::Time now = std::chrono::system_clock::now();
};

TEST(FailedPeer, ARankThatDoesNotNoticeIsKilledWithinSecondsAndCountsAsOneThatLostItsPeer) {
  Parents parents;
  parents.look_for(60s);
  EXPECT_FALSE(parents.task.is_killed());
  parents.dead.tell(rank_of_step(0, 0, 137));
  parents.look_for(9s);
  EXPECT_FALSE(parents.task.is_killed()) << "it has had no time to notice by itself";
  parents.look_for(6s);
  EXPECT_TRUE(parents.task.gets_killed());
  const auto end = parents.own.told_end({.code = 137, .signal = SIGKILL});
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.signal, 0);
}

TEST(FailedPeer, TheParentThatHoldsARanksStateSurvivesTheKill) {
  Parents parents;
  const pid_t holder = start_holder();
  std::vector<pid_t> processes;
  while ((processes = processes_of_tree(holder)).size() < 2) ::sched_yield();
  const pid_t training = processes.back();
  parents.dead.tell(rank_of_step(0, 0, 137));
  for (const auto end = parents.now + 15s; parents.now < end; parents.now += 1s) {
    parents.own.look(holder, training, parents.now);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(holder, &status, 0), holder);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(FailedPeer, ARankThatStillWritesIsLeftAlone) {
  Parents parents;
  parents.dead.tell(rank_of_step(0, 0, 137));
  for (int i = 0; i < 20; ++i) {
    parents.look_for(5s);
    parents.task.write_something();
  }
  EXPECT_FALSE(parents.task.is_killed());
  parents.look_for(12s);
  EXPECT_TRUE(parents.task.gets_killed());
}

TEST(FailedPeer, AGoodEndAndAStopOnRequestAreNoFailure) {
  Parents parents;
  for (const int code : {0, 75}) parents.dead.tell(rank_of_step(0, 0, code));
  parents.look_for(60s);
  EXPECT_FALSE(parents.task.is_killed());
}

TEST(FailedPeer, AFailureOfAnEarlierStartOfTheStepIsOver) {
  Parents parents;
  const Log log;
  FailedPeer(rank_of_step(0, /*restart=*/-1), 2, parents.run.path(), log).tell(rank_of_step(0, -1, 137));
  parents.look_for(60s);
  EXPECT_FALSE(parents.task.is_killed());
  parents.dead.tell(rank_of_step(0, 0, 139));
  parents.look_for(15s);
  EXPECT_TRUE(parents.task.gets_killed()) << "the old file is in the new one's place";
}

TEST(FailedPeer, AKillBySomebodyElseStaysOne) {
  const Parents parents;
  EXPECT_EQ(parents.own.told_end({.code = 137, .signal = SIGKILL}).code, 137);
}

TEST(FailedPeer, WhatCannotBeReadIsNoFailure) {
  Parents parents;
  make_folder(parents.run.path() / "watch");
  for (const auto* text : {"", "{", "[]", "{}", R"({"job":7})", R"({"job":"7","start":0,"restart":0})"}) {
    write_whole(parents.run.path() / "watch/failed", text, false);
    parents.look_for(15s);
  }
  EXPECT_FALSE(parents.task.is_killed());
}

}  // namespace
}  // namespace lockstep
