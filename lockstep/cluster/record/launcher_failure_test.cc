// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/launcher_failure.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Lines = std::vector<std::string>;

// Lines that torchrun of PyTorch 2.11 wrote, shortened in the middle.
const Lines kTorchrun = {
    "child says why",
    "W1123 13:33:01.554000 11718 torch/distributed/elastic/multiprocessing/api.py:1010] Sending process 11832 closing "
    "signal SIGTERM",
    "Traceback (most recent call last):",
    "  File \"<frozen runpy>\", line 198, in _run_module_as_main",
    "    raise ChildFailedError(",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "============================================================",
    "child.py FAILED",
    "Failures:",
    "[1]:",
    "  rank      : 0 (local_rank: 0)",
    "  exitcode  : -15 (pid: 11832)",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-11-23_13:33:01",
    "  host      : localhost",
    "  rank      : 5 (local_rank: 1)",
    "  exitcode  : -9 (pid: 11833)",
    "  traceback : Signal 9 (SIGKILL) received by PID 11833",
};

TEST(LauncherFailures, OfTorchrunAreItsRootCause) {
  const auto found = launcher_failure(kTorchrun);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->launcher, "torchrun");
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->code, 137);
}

TEST(LauncherFailures, OfMpirunAreTheProcessThatItNames) {
  // Lines that Open MPI 4.1.4 wrote.
  const auto aborted =
      launcher_failure({"MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD", "with errorcode 6."});
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->launcher, "mpirun");
  EXPECT_EQ(aborted->rank, 1);
  EXPECT_EQ(aborted->code, 6);
  const auto ended =
      launcher_failure({"the job to be terminated. The first process to do so was:", "",
                        "  Process name: [[22358,1],12]", "  Exit code:    9", "--------------------------"});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->rank, 12);
  EXPECT_EQ(ended->code, 9);
  const auto killed =
      launcher_failure({"mpirun noticed that process rank 3 with PID 0 on node vm exited on signal 9 (Killed)."});
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->rank, 3);
  EXPECT_EQ(killed->code, 137);
}

TEST(LauncherFailures, AreNotInWhatOtherProgramsWrite) {
  EXPECT_FALSE(launcher_failure({}));
  EXPECT_FALSE(launcher_failure({"rank : 3", "exitcode : 4"}));
  EXPECT_FALSE(launcher_failure({"Root Cause: no idea", "exitcode : many"}));
  EXPECT_FALSE(launcher_failure({"Process names are [[in brackets"}));
}

TEST(RankLines, AreTheLastOnesThatTheRankItselfSaid) {
  EXPECT_EQ(rank_lines(kTorchrun), Lines(kTorchrun.begin(), kTorchrun.begin() + 2));
  const Lines other = {"Traceback (most recent call last):", "ValueError: 3"};
  EXPECT_EQ(rank_lines(other), other);
  Lines many(30, "old");
  many.back() = "new";
  EXPECT_EQ(rank_lines(many), Lines(many.end() - 20, many.end()));
  const Lines alone(kTorchrun.begin() + 2, kTorchrun.end());
  EXPECT_EQ(rank_lines(alone), alone) << "nothing else is there";
}

}  // namespace
}  // namespace lockstep
