// SPDX-License-Identifier: Apache-2.0
// Tests Group::stop_requested(). With it a user's own loop stops on every rank after the same step.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>

#include "lockstep/comm/data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;

RANKS_TEST(StopRequested, IsHeardByEveryRankAfterTheSameStep, 3) {
  torch::nn::Linear net(4, 2);
  DistributedDataParallel parallel(*net, group);
  std::int64_t steps = 0;
  while (steps < 10 && !group.stop_requested()) {
    if (group.rank() == 2 && steps == 4) ::raise(SIGUSR1);
    parallel.backward(net->forward(at::ones({3, 4})).sum(), 3);
    ++steps;
  }
  EXPECT_EQ(group.all_gather(steps), (std::vector<std::int64_t>{5, 5, 5}));
}

RANKS_TEST(StopRequested, NeedsSomethingToAgreeWith, 2) {
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { group.stop_requested(); }), "no DistributedDataParallel was made");
}

TEST(StopRequested, OneRankHearsItsOwnSignal) {
  auto group = one_rank();
  EXPECT_FALSE(group.stop_requested());
  ::raise(SIGTERM);
  EXPECT_TRUE(group.stop_requested());
}

TEST(StopRequested, IsTrueAMinuteBeforeTheJobsEnd) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto end = [&](int after) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count() + after);
  };
  for (const auto& [after, is_requested] : {std::pair{50, true}, std::pair{500, false}}) {
    ::setenv("LOCKSTEP_JOB_END", end(after).c_str(), 1);
    EXPECT_EQ(one_rank().stop_requested(), is_requested);
  }
  ::unsetenv("LOCKSTEP_JOB_END");
}

}  // namespace
}  // namespace lockstep
