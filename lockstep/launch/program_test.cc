// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/program.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "lockstep/launch/early_signal.h"

namespace lockstep {
namespace {

TEST(ProgramInPath, IsInTheFirstFolderThatHasIt) {
  EXPECT_EQ(program_in_path("sh", Environment{{"PATH", "/no/such:/bin:/usr/bin"}}), "/bin/sh");
  EXPECT_EQ(program_in_path("./sh", Environment{{"PATH", "/bin"}}), "./sh");
  EXPECT_EQ(program_in_path("share", Environment{{"PATH", "/usr"}}), std::nullopt) << "a folder is no program";
  EXPECT_EQ(program_in_path("no-such-program", Environment{{"PATH", "/bin"}}), std::nullopt);
}

/// Returns the exit status of a child that gets the signal at once, and exits with 75 if its handler runs.
int ended_after_warning(int warning, bool holds) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (holds) hold_early_signal();
    ::raise(warning);
    std::signal(warning, [](int) { ::_exit(75); });
    release_early_signal();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return shell_status(status);
}

TEST(EarlySignal, WaitsUntilAHandlerStands) {
  for (const int warning : {SIGUSR1, SIGUSR2}) {
    EXPECT_EQ(ended_after_warning(warning, true), 75);
    EXPECT_EQ(ended_after_warning(warning, false), 128 + warning);
  }
}

}  // namespace
}  // namespace lockstep
