// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/forward_pass.h"

#include <gtest/gtest.h>

#include "lockstep/models/batch_norm.h"
#include "tests/support/ranks.h"
#include "tests/support/training_parts.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;
using testing::SmallNet;
using testing::TrainingParts;

std::int64_t drawn() { return at::randint(std::int64_t{1} << 40, {1}, at::kLong).item<std::int64_t>(); }

TEST(ForwardPass, SeedsByRunStepAndIndexAlone) {
  auto group = one_rank();
  SmallNet net;
  const TrainingParts parts(net, group, {.seed = 1}), other(net, group, {.seed = 2});
  const auto drawn_after = [](const ForwardPass& forward, std::int64_t step, std::int64_t index) {
    forward.seed(step, index);
    return drawn();
  };
  const auto first = drawn_after(parts.forward, 3, 1);
  drawn();
  EXPECT_EQ(drawn_after(parts.forward, 3, 1), first);
  EXPECT_NE(drawn_after(parts.forward, 4, 1), first);
  EXPECT_NE(drawn_after(parts.forward, 3, 2), first);
  EXPECT_NE(drawn_after(other.forward, 3, 1), first);
}

RANKS_TEST(ForwardPassOfRanks, SeedsEachRankInItsOwnWay, 2) {
  SmallNet net;
  const TrainingParts parts(net, group);
  parts.forward.seed(3, 1);
  const auto all = group.all_gather(drawn());
  EXPECT_NE(all[0], all[1]);
}

TEST(ForwardPass, RunsTheModelInTheTrainingsPrecision) {
  struct Asking : SmallNet {
    at::Tensor training_step(const Batch& batch) override {
      type = fc1(batch.input()).scalar_type();
      return SmallNet::training_step(batch);
    }
    at::ScalarType type = at::kDouble;
  };
  auto group = one_rank();
  for (const auto& [precision, type] :
       {std::pair{Precision::kFp32, at::kFloat}, std::pair{Precision::kBf16, at::kBFloat16}}) {
    Asking net;
    TrainingParts parts(net, group, {.step = {.precision = precision}});
    parts.feed.seek(0, 0);
    const auto loss = parts.forward.loss(parts.feed.next(0).batches.front(), {});
    EXPECT_EQ(loss.dim(), 0);
    EXPECT_EQ(net.type, type);
  }
}

struct Failing : SmallNet {
  at::Tensor training_step(const Batch&) override { throw std::out_of_range("no such word"); }
};

TEST(ForwardPass, NamesTheStepInWhichTheModelFails) {
  auto group = one_rank();
  Failing net;
  TrainingParts parts(net, group);
  parts.feed.seek(0, 0);
  const auto batch = parts.feed.next(0).batches.front();
  const auto text = message_of(ErrorKind::kRecipe, [&] { parts.forward.loss(batch, {.step = 7, .epoch = 2}); });
  EXPECT_HAS(text, "no such word");
  EXPECT_HAS(text, "training step 8 of epoch 2");
  EXPECT_THROW(parts.forward.loss(batch, {.is_recorded = true}), std::out_of_range);
}

TEST(ForwardPass, RunsNothingForABatchWithoutSamples) {
  auto group = one_rank();
  SmallNet net;
  TrainingParts parts(net, group);
  parts.feed.seek(0, 0);
  const auto batch = parts.feed.next(0).batches.front();
  EXPECT_EQ(parts.forward.batch_to_run(batch), &batch);
  EXPECT_EQ(parts.forward.batch_to_run({}), nullptr);
  EXPECT_FALSE(parts.forward.is_synchronised());
}

TEST(ForwardPass, RunsAStandInWhereBatchNormNeedsEachRank) {
  struct Normalised : SmallNet {
    Normalised() { norm = register_module("norm", std::make_shared<BatchNorm>(8)); }
    std::shared_ptr<BatchNorm> norm;
  };
  auto group = one_rank();
  const TrainerOptions options{.step = {.sync_batchnorm = true}};
  Normalised net;
  TrainingParts parts(net, group, options);
  EXPECT_TRUE(parts.forward.is_synchronised());
  const auto* stand_in = parts.forward.batch_to_run({});
  ASSERT_NE(stand_in, nullptr);
  EXPECT_EQ(stand_in->samples(), 1);
  EXPECT_EQ(parts.forward.batch_to_run({}), stand_in);
  SmallNet plain;
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { TrainingParts(plain, group, options); }), "BatchNorm");
}

}  // namespace
}  // namespace lockstep
