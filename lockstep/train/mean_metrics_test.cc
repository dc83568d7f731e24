// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/mean_metrics.h"

#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;

using Means = std::map<std::string, double>;

TEST(MeanMetrics, WeighEverySampleEqually) {
  auto group = one_rank();
  MeanMetrics metrics;
  metrics.begin_batch(3);
  metrics.add("loss", 1.0);
  metrics.add("accuracy", 0.5);
  metrics.begin_batch(1);
  metrics.add("loss", 5.0);
  EXPECT_EQ(metrics.over_ranks(group), (Means{{"accuracy", 0.5}, {"loss", 2.0}}));
  metrics.clear();
  EXPECT_TRUE(metrics.over_ranks(group).empty());
}

RANKS_TEST(MeanMetrics, AddUpRanksOfUnequalPartsAndOneWithoutSamples, 3) {
  MeanMetrics metrics;
  if (group.rank() < 2) {
    metrics.begin_batch(group.rank() == 0 ? 3 : 1);
    metrics.add("loss", group.rank() == 0 ? 1.0 : 5.0);
  }
  EXPECT_EQ(metrics.over_ranks(group), (Means{{"loss", 2.0}}));
}

RANKS_TEST(MeanMetrics, NameWhatRankZeroDidNotLog, 2) {
  MeanMetrics metrics;
  metrics.begin_batch(1);
  metrics.add("loss", 1);
  if (group.rank() == 1) metrics.add("extra", 1);
  const auto text = message_of(ErrorKind::kUsage, [&] { metrics.over_ranks(group); });
  EXPECT_HAS(text, group.rank() == 1 ? "this rank logged 'extra', which rank 0 did not"
                                     : "another rank logged a metric that rank 0 did not");
}

}  // namespace
}  // namespace lockstep
