// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/stop_request.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>

#include "lockstep/launch/stop_signals.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::one_rank;

TEST(StopRequest, AsksForNothingAtFirst) {
  auto group = one_rank();
  torch::nn::Linear net(2, 1);
  DistributedDataParallel parallel(*net, group);
  StopRequest stop;
  EXPECT_FALSE(stop.is_asked());
  EXPECT_FALSE(stop.agree_now(parallel, group));
  EXPECT_FALSE(stop.is_agreed());
  EXPECT_EQ(stop.stopped_by(), "");
}

TEST(StopRequest, KeepsTheFirstReason) {
  auto group = one_rank();
  torch::nn::Linear net(2, 1);
  DistributedDataParallel parallel(*net, group);
  StopRequest stop;
  stop.ask("callback: patience");
  stop.ask("max_time");
  EXPECT_TRUE(stop.is_asked());
  EXPECT_FALSE(stop.is_agreed()) << "asked for is not agreed";
  EXPECT_TRUE(stop.agree_now(parallel, group));
  EXPECT_TRUE(stop.is_agreed());
  EXPECT_EQ(stop.stopped_by(), "callback: patience");
}

TEST(StopRequest, ASignalAsksOnceItHasCome) {
  const StopSignals signals;
  StopRequest stop;
  stop.ask_if_due();
  EXPECT_FALSE(stop.is_asked());
  ::raise(SIGUSR1);
  EXPECT_FALSE(stop.is_asked()) << "nobody has looked";
  stop.ask_if_due();
  EXPECT_TRUE(stop.is_asked());
}

TEST(StopRequest, EndsForAReasonThatAllKnow) {
  StopRequest stop;
  stop.end("max_epochs");
  EXPECT_TRUE(stop.is_agreed());
  EXPECT_FALSE(stop.is_asked());
  EXPECT_EQ(stop.stopped_by(), "max_epochs");
}

RANKS_TEST(StopRequest, TakesTheReasonOfTheFirstRankThatAsked, 3) {
  torch::nn::Linear net(2, 1);
  DistributedDataParallel parallel(*net, group);
  StopRequest stop;
  EXPECT_FALSE(stop.agree_now(parallel, group));
  if (group.rank() > 0) stop.ask("rank " + std::to_string(group.rank()));
  EXPECT_TRUE(stop.agree_now(parallel, group));
  EXPECT_EQ(stop.stopped_by(), "rank 1");
  EXPECT_EQ(stop.is_asked(), group.rank() > 0);
}

}  // namespace
}  // namespace lockstep
