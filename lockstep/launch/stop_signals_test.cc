// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/stop_signals.h"

#include <gtest/gtest.h>

#include <csignal>

#include "lockstep/launch/early_signal.h"
#include "tests/support/process.h"

namespace lockstep {
namespace {

TEST(StopSignals, AreNotedByNameWhileTheObjectLives) {
  for (const auto& [number, name] : {std::pair{SIGTERM, "SIGTERM"}, std::pair{SIGINT, "SIGINT"},
                                     std::pair{SIGUSR1, "SIGUSR1"}, std::pair{SIGUSR2, "SIGUSR2"}}) {
    const StopSignals signals;
    EXPECT_FALSE(StopSignals::arrived());
    EXPECT_EQ(StopSignals::name(), "");
    ::raise(number);
    EXPECT_TRUE(StopSignals::arrived());
    EXPECT_EQ(StopSignals::name(), name);
  }
}

TEST(StopSignals, GiveBackTheHandlerThatWasThere) {
  static volatile std::sig_atomic_t theirs = 0;
  const auto before = std::signal(SIGUSR1, [](int) { theirs = 1; });
  {
    const StopSignals signals;
    ::raise(SIGUSR1);
    EXPECT_EQ(theirs, 0);
  }
  ::raise(SIGUSR1);
  EXPECT_EQ(theirs, 1);
  std::signal(SIGUSR1, before);
}

// A fault that this test keeps out: all ranks had stopped for the signal of one rank and were ending, when Slurm's own
// signal killed two of them.
TEST(StopSignals, ThatComeAfterTheStopOfOurOwnProgramEndNothing) {
  testing::in_child([] {
    hold_early_signal();
    { const StopSignals signals; }
    for (const int number : {SIGTERM, SIGUSR1, SIGUSR2}) ::raise(number);
    EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_DFL);
  });
}

TEST(StopSignalsDeathTest, ASecondInterruptEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const StopSignals signals;
        ::raise(SIGINT);
        ::raise(SIGTERM);
        ::raise(SIGINT);
        ::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace lockstep
