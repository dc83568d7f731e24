// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/launcher.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/socket.h"
#include "lockstep/launch/topology.h"
#include "lockstep/store/client.h"
#include "tests/support/local_launch.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::is_alive;
using testing::Launch;
using testing::message_of;
using testing::pids;
using testing::script;
using testing::TemporaryFolder;

/// 'R', 'S', 'Z' and so on, as proc(5) has it.
char state_of(pid_t pid) {
  const std::string text = text_of_file("/proc/" + std::to_string(pid) + "/stat");
  return text.at(text.rfind(')') + 2);
}

TEST(LocalLauncher, EachRankIsToldItsPlaceAndOneMeetingPoint) {
  Launch launch(
      script("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $LOCKSTEP_LAUNCHER $MASTER_ADDR:$MASTER_PORT", 3));
  auto lines = split(trimmed(launch.all_lines()), '\n');
  EXPECT_EQ(launch.exit_code(), 0);
  std::sort(lines.begin(), lines.end());
  ASSERT_EQ(lines.size(), 3U);
  const std::string master = lines[0].substr(lines[0].rfind(' '));
  for (int rank = 0; rank < 3; ++rank) {
    const auto digit = std::to_string(rank);
    EXPECT_EQ(lines[static_cast<std::size_t>(rank)], digit + " 3 " + digit + " 3 1" + master);
  }
  EXPECT_TRUE(master.starts_with(" 127.0.0.1:")) << master;
}

TEST(LocalLauncher, AForeignProgramsRanksShareTheCoresAndTheUsersOwnNumberStays) {
  const int cores = Topology().cores_of(cpus_of_process());
  ::unsetenv("OMP_NUM_THREADS");
  Launch shared(script("echo $NODE_RANK:$OMP_NUM_THREADS", 2));
  const auto share = "0:" + std::to_string(std::max(1, cores / 2)) + "\n";
  EXPECT_EQ(shared.all_lines(), share + share);
  EXPECT_EQ(shared.exit_code(), 0);
  ::setenv("OMP_NUM_THREADS", "5", 1);
  Launch given(script("echo $OMP_NUM_THREADS", 2));
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(given.all_lines(), "5\n5\n");
  EXPECT_EQ(given.exit_code(), 0);
}

TEST(LocalLauncher, ServesTheStoreToItsRanksAndLeavesNoSecret) {
  const TemporaryFolder folder;
  LocalJob job = script(
      "stat -c '%a %s' \"$LOCKSTEP_MEETING\" \"$LOCKSTEP_MEETING/secret\"; echo $LOCKSTEP_STORE_SERVED; "
      "ls -l /proc/self/fd | grep -c socket; true",
      1);
  job.owns_store = true;
  job.run_dir = folder.path() / "run";
  Launch launch(job);
  const auto lines = split(trimmed(launch.all_lines()), '\n');
  EXPECT_EQ(launch.exit_code(), 0);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines[0].starts_with("700 ")) << lines[0];
  EXPECT_EQ(lines[1], "600 32");
  EXPECT_EQ(lines[2], "1");
  EXPECT_EQ(lines[3], "0") << "a rank inherits no socket";
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(LocalLauncher, ARankCanReachTheStoreThatItsLauncherServes) {
  const TemporaryFolder folder;
  LocalJob job = script(
      "cat \"$LOCKSTEP_MEETING/secret\" > '" + (folder.path() / "secret").string() + "'; echo $MASTER_PORT; sleep 60",
      1);
  job.owns_store = true;
  job.run_dir = folder.path() / "run";
  Launch launch(job);
  const auto port = parsed_int<int>(trimmed(launch.lines(1)));
  ASSERT_TRUE(port);
  const StoreIdentity identity{Secret::from(text_of_file(folder.path() / "secret")).value(),
                               "port " + std::to_string(*port)};
  const auto until = Clock::now() + std::chrono::seconds(20);
  StoreClient client(connect_until({"127.0.0.1", *port}, until), identity, until);
  EXPECT_EQ(client.ask({StoreOperation::kAdd, 1, {"n", "2"}}, until).at(0), "2");
}

TEST(LocalLauncher, OneFailingRankStopsTheOthersAndItsLastLinesAreShown) {
  const auto start = Clock::now();
  Launch launch(
      script("if [ $RANK = 1 ]; then seq 1 100; echo no such file >&2; exit 3; fi; trap '' TERM; sleep 60", 3));
  const std::string text = launch.all_lines();
  EXPECT_EQ(launch.exit_code(), 3);
  EXPECT_LT(seconds_between(start, Clock::now()), 10);
  const auto at = text.find("rank 1 of 3 ended with code 3; the others were stopped; its last lines:\n");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(text.find("  | no such file\n", at), std::string::npos);
  EXPECT_NE(text.find("  | 100\n", at), std::string::npos);
  EXPECT_EQ(text.find("  | 80\n", at), std::string::npos);
}

TEST(LocalLauncher, ARankThatIsKilledEndsWithItsSignalsCode) {
  Launch launch(script("if [ $RANK = 0 ]; then kill -9 $$; fi; sleep 60", 2));
  EXPECT_NE(launch.all_lines().find("rank 0 of 2 ended by signal 9 (Killed)"), std::string::npos);
  EXPECT_EQ(launch.exit_code(), 137);
}

TEST(LocalLauncher, ARankThatOnlyLostItsPeerIsNotNamedAsTheCause) {
  Launch launch(script("trap '[ $RANK = 0 ] && exit 7; exit 9' USR1; echo $PPID; echo $$; sleep 60 & wait", 2));
  const auto all = pids(launch.lines(4));
  ASSERT_EQ(all.size(), 4U);
  // The supervisor is held until both ranks have ended, so that it finds them at once.
  ::kill(all[0], SIGSTOP);
  for (const pid_t pid : all) {
    if (pid == all[0]) continue;
    ::kill(pid, SIGUSR1);
    while (state_of(pid) != 'Z') ::poll(nullptr, 0, 1);
  }
  ::kill(all[0], SIGCONT);
  EXPECT_NE(launch.all_lines().find("rank 1 of 2 ended with code 9"), std::string::npos);
  EXPECT_EQ(launch.exit_code(), 9);
}

// The others were stopped at once, so that a cause which took a moment longer to end was named as a lost peer or
// SIGTERM.
TEST(LocalLauncher, TheCauseMayEndAfterARankThatLostIt) {
  const TemporaryFolder folder;
  const std::string gate = "'" + (folder.path() / "gate").string() + "'";
  ASSERT_EQ(::mkfifo((folder.path() / "gate").c_str(), 0600), 0);
  LocalJob job = script("if [ $RANK = 0 ]; then echo $$ > " + gate + "; exit 7; fi; read other < " + gate +
                            "; while kill -0 $other 2> /dev/null; do :; done; echo out of range >&2; exit 3",
                        2);
  job.cause_grace = std::chrono::minutes(1);
  Launch launch(job);
  const std::string text = launch.all_lines();
  EXPECT_NE(text.find("rank 1 of 2 ended with code 3"), std::string::npos) << text;
  EXPECT_EQ(launch.exit_code(), 3);
}

// A shell's rank that writes its page: its error is rank 0's.
constexpr const char* kIsToldByRankZero =
    "printf 'KLPAGE2\\0' | dd of=$LOCKSTEP_PAGE bs=8 conv=notrunc 2> /dev/null; "
    "printf '\\1' | dd of=$LOCKSTEP_PAGE bs=1 seek=28 conv=notrunc 2> /dev/null; exit 6; ";

TEST(LocalLauncher, ARankThatWasToldOfAnErrorIsNotNamedForIt) {
  const TemporaryFolder folder;
  const std::string gate = "'" + (folder.path() / "gate").string() + "'";
  ASSERT_EQ(::mkfifo((folder.path() / "gate").c_str(), 0600), 0);
  LocalJob job = script("if [ $RANK = 1 ]; then echo $$ > " + gate + "; " + kIsToldByRankZero + "fi; read other < " +
                            gate + "; while kill -0 $other 2> /dev/null; do :; done; echo disk full >&2; exit 6",
                        2);
  job.cause_grace = std::chrono::minutes(1);
  Launch launch(job);
  const std::string text = launch.all_lines();
  EXPECT_NE(text.find("rank 0 of 2 ended with code 6"), std::string::npos) << text;
  EXPECT_NE(text.find("  | disk full"), std::string::npos) << text;
  EXPECT_EQ(launch.exit_code(), 6);
}

TEST(LocalLauncher, TheRankWhoseErrorItIsIsNamedEvenIfItDoesNotEnd) {
  Launch launch(script(std::string("trap '' TERM; if [ $RANK = 1 ]; then ") + kIsToldByRankZero + "fi; sleep 60", 2));
  const std::string text = launch.all_lines();
  EXPECT_NE(text.find("rank 0 of 2 ended with code 6"), std::string::npos) << text;
  EXPECT_EQ(launch.exit_code(), 6);
}

TEST(LocalLauncher, ARankThatGoesOnAfterItsPeerWasLostIsStopped) {
  Launch launch(script("[ $RANK = 0 ] && exit 7; sleep 60", 2));
  EXPECT_NE(launch.all_lines().find("rank 0 of 2 ended with code 7"), std::string::npos);
  EXPECT_EQ(launch.exit_code(), 7);
}

TEST(LocalLauncher, StoppedOnRequestIsOrderlyAndStopsNobody) {
  Launch launch(script("[ $RANK = 0 ] && exit 75; echo went on", 2));
  EXPECT_EQ(launch.all_lines(), "went on\n");
  EXPECT_EQ(launch.exit_code(), 75);
}

TEST(LocalLauncher, SignalsArePassedOnToEveryRank) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
    Launch launch(script("trap 'echo got it; exit 75' TERM INT USR1 USR2; echo ready; sleep 60 & wait", 2));
    launch.lines(2);
    ::kill(launch.pid(), signal);
    const std::string text = launch.all_lines();
    EXPECT_NE(text.find("got it\n"), text.rfind("got it\n")) << text;
    EXPECT_EQ(launch.exit_code(), 75) << signal;
  }
}

TEST(LocalLauncher, ARankThatIsFrozenHearsOfAStop) {
  Launch launch(script("trap 'exit 75' TERM INT; echo $RANK $$; sleep 60 & wait", 2));
  for (const auto& line : split(launch.lines(2), '\n')) {
    if (line.starts_with("1 ")) ::kill(*parsed_int<pid_t>(line.substr(2)), SIGSTOP);
  }
  ::kill(launch.pid(), SIGTERM);
  launch.all_lines();
  EXPECT_EQ(launch.exit_code(), 75);
}

TEST(LocalLauncher, ARankThatDoesNotEndIsNamedAndKilledAfterTheGraceOfAStop) {
  for (const int signal : {SIGTERM, SIGINT}) {
    LocalJob job = script("trap 'exit 75' TERM INT; [ $RANK = 0 ] || trap '' TERM INT; echo $RANK; sleep 60 & wait", 2);
    job.stop_grace = std::chrono::seconds(1);
    Launch launch(job);
    launch.lines(2);
    ::kill(launch.pid(), signal);
    const auto text = launch.all_lines();
    EXPECT_HAS(text, "rank 1 of 2 did not end within 1 s after signal " + std::to_string(signal));
    EXPECT_EQ(launch.exit_code(), 128 + signal);
  }
}

TEST(LocalLauncher, TheGraceOfAStopIsReadFromTheEnvironment) {
  EXPECT_EQ(stop_grace(Environment{}), std::chrono::seconds(60));
  EXPECT_EQ(stop_grace(Environment{{"LOCKSTEP_STOP_GRACE", "5"}}), std::chrono::seconds(5));
}

TEST(LocalLauncher, NothingIsLeftWhereTheLauncherIsKilled) {
  Launch launch(script("echo $$; sleep 60 & echo $!; setsid sleep 60 & echo $!; wait", 2));
  const auto all = pids(launch.lines(6));
  ASSERT_EQ(all.size(), 6U);
  ::kill(launch.pid(), SIGKILL);
  launch.all_lines();  // Ends when the last holder of the pipe, the supervisor, has gone.
  EXPECT_EQ(launch.exit_code(), 137);
  for (const pid_t pid : all) EXPECT_FALSE(is_alive(pid));
}

TEST(LocalLauncher, GrandchildrenEndWithTheirRank) {
  Launch launch(script("echo $$; sleep 60 & echo $!; setsid sleep 60 & echo $!", 2));
  const auto all = pids(launch.all_lines());
  EXPECT_EQ(launch.exit_code(), 0);
  ASSERT_EQ(all.size(), 6U);
  for (const pid_t pid : all) EXPECT_FALSE(is_alive(pid));
}

TEST(LocalLauncher, ArgumentsReachTheProgramUntouched) {
  LocalJob job;
  job.command = {"printf", "<%s>\n", "[a,b]", "", "--", "-n 3", "$HOME"};
  Launch launch(job);
  EXPECT_EQ(launch.all_lines(), "<[a,b]>\n<>\n<-->\n<-n 3>\n<$HOME>\n");
  EXPECT_EQ(launch.exit_code(), 0);
}

TEST(LocalLauncher, WhatCannotBeStartedIsRefusedWithTheReason) {
  const Environment env{{"PATH", "/usr/bin"}};
  LocalJob job;
  job.command = {"no-such-program"};
  EXPECT_EQ(message_of(ErrorKind::kEnvironment, [&] { run_local(job, env, Log()); }),
            "program 'no-such-program' was not found in PATH='/usr/bin'\n  hint: give its path, for example "
            "./no-such-program");
  job.command = {"/etc/passwd"};
  EXPECT_NE(message_of(ErrorKind::kEnvironment, [&] { run_local(job, env, Log()); })
                .find("start '/etc/passwd' failed: Permission denied"),
            std::string::npos);
  job.ranks = 0;
  EXPECT_NE(message_of(ErrorKind::kUsage, [&] { run_local(job, env, Log()); }).find("the number of ranks is 0"),
            std::string::npos);
  EXPECT_NE(message_of(ErrorKind::kUsage, [&] { run_local({}, env, Log()); }).find("no program was given"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
