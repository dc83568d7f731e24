// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/distributed_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/epoch_order.h"

namespace lockstep {
namespace {

TEST(DistributedSampler, GivesEachSampleOnceAnEpochOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::int64_t epoch : {0, 3}) {
      std::vector<std::int64_t> seen;
      std::vector<DistributedSampler> samplers;
      for (int rank = 0; rank < ranks; ++rank) {
        samplers.emplace_back(23, DistributedSamplerOptions{.global_batch = 4, .shard = {rank, ranks}, .seed = 9});
        samplers.back().set_epoch(epoch);
      }
      for (std::int64_t batch = 0; batch < samplers[0].batches(); ++batch) {
        std::int64_t together = 0;
        for (auto& sampler : samplers) {
          const auto part = sampler.next();
          ASSERT_TRUE(part);
          EXPECT_EQ(part->global_samples, batch == 5 ? 3 : 4);
          together += std::ssize(part->indices);
          seen.insert(seen.end(), part->indices.begin(), part->indices.end());
        }
        EXPECT_EQ(together, batch == 5 ? 3 : 4);
      }
      for (auto& sampler : samplers) EXPECT_FALSE(sampler.next());
      std::vector<std::int64_t> order(23);
      EpochOrder(23, 9, epoch).take(0, order);
      EXPECT_EQ(seen, order) << ranks << " ranks";
    }
  }
}

TEST(DistributedSampler, LeavesTheShortBatchOutWhereAsked) {
  DistributedSampler sampler(23, {.global_batch = 4, .drop_last = true});
  EXPECT_EQ(sampler.batches(), 5);
}

TEST(DistributedSampler, RefusesWhatIsOutOfRange) {
  EXPECT_THROW(DistributedSampler(23, {.global_batch = 0}), Error);
  EXPECT_THROW(DistributedSampler(23, {.global_batch = 4, .shard = {3, 3}}), Error);
}

}  // namespace
}  // namespace lockstep
