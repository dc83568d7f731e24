// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/attended.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

/// After attended() a process ignores signals that ask to stop. This restores the handlers for the tests that follow.
class AttendedProgram : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT}) ::signal(signal, SIG_DFL);
  }
};

ProgramEnd ended(const std::string& script) { return attended("/bin/sh", {"sh", "-c", script}, Environment{}); }

TEST_F(AttendedProgram, EndsWithItsOwnCodeOrItsSignal) {
  EXPECT_EQ(ended("exit 0").code, 0);
  EXPECT_EQ(ended("exit 75").code, 75);
  const auto killed = ended("kill -9 $$");
  EXPECT_EQ(killed.code, 137);
  EXPECT_EQ(killed.signal, SIGKILL);
  const auto passed_on = ended("exit 137");
  EXPECT_EQ(passed_on.code, 137);
  EXPECT_EQ(passed_on.signal, 0);
  EXPECT_EQ(attended("/no/such", {"such"}, Environment{}).code, 4);
}

TEST_F(AttendedProgram, KeepsTheSignalsThatItsParentWaitsFor) {
  EXPECT_EQ(ended("kill -TERM $$").code, 143) << "what the parent blocks, the program does not";
}

TEST_F(AttendedProgram, PassesItsErrorsOnAndKeepsTheLastLines) {
  ::testing::internal::CaptureStderr();
  const auto end =
      ended("for i in $(seq 1 150); do echo line $i >&2; done; printf 'half\\rwhole, without an end' >&2; exit 1");
  const auto passed_on = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(passed_on.find("line 1\n"), std::string::npos);
  EXPECT_NE(passed_on.find("half\rwhole, without an end"), std::string::npos);
  ASSERT_EQ(end.last.size(), 100U);
  EXPECT_EQ(end.last.front(), "line 53");
  EXPECT_EQ(end.last.back(), "whole, without an end");
}

TEST_F(AttendedProgram, KeepsWhatItWritesInALogToo) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "rank.log";
  const FileDescriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const auto end = attended("/bin/sh", {"sh", "-c", "echo said; echo cried >&2; exit 3"}, Environment{}, log.get());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "said\n");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "cried\n");
  const auto kept = text_of_file(path);
  EXPECT_TRUE(kept == "said\ncried\n" || kept == "cried\nsaid\n") << kept;
  EXPECT_EQ(end.last, std::vector<std::string>{"cried"});
}

TEST_F(AttendedProgram, IsNotEndedByALogThatTakesNothing) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_APPEND | O_CLOEXEC));
  EXPECT_EQ(attended("/bin/sh", {"sh", "-c", "echo said && exit 9"}, Environment{}, full.get()).code, 9);
}

TEST_F(AttendedProgram, IsNotHeldUpByWhatItLeavesBehind) {
  const auto end = ended("sleep 60 & echo $! >&2; exit 3");
  EXPECT_EQ(end.code, 3);
  ASSERT_EQ(end.last.size(), 1U);
  ::kill(std::stoi(end.last.front()), SIGKILL);
}

TEST_F(AttendedProgram, GetsASignalThatCameBeforeItStood) {
  sigset_t early;
  sigset_t before;
  ::sigemptyset(&early);
  ::sigaddset(&early, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &early, &before);
  ::raise(SIGUSR1);
  // The program inherits the signal mask, so SIGUSR1 (bit 10 of the mask) is pending in the program too.
  const auto end =
      attended("/bin/bash", {"bash", "-c", "while ! grep -q 'ShdPnd:.*2..$' /proc/$$/status; do :; done; exit 9"},
               Environment{{"PATH", "/usr/bin:/bin"}});
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(end.code, 9);
}

TEST_F(AttendedProgram, IsNotSpoiltByASignalThatComesAfterItsEnd) {
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto end = ended("exit 0");
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) ::raise(signal);
    ::_exit(end.code);
  }
  int status = 0;
  ::waitpid(parent, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace lockstep
