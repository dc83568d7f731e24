// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/training_data.h"

#include <gtest/gtest.h>

#include "lockstep/train/fit/batch_feed.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;

TEST(TrainingData, CountsAShortLastStep) {
  auto group = one_rank();
  MadeUpData made_up(4);  // 22 samples.
  const TrainerOptions options{.max_epochs = 2, .step = {.accumulate = 2}};
  const TrainingData data(made_up, options, group);
  EXPECT_EQ(data.step_samples(), 8);
  EXPECT_EQ(training_plan(options, data).steps_per_epoch, 3);
  EXPECT_EQ(training_plan(options, data).steps, 6);
  EXPECT_FALSE(data.is_epoch_over(20));
  EXPECT_TRUE(data.is_epoch_over(22));
}

TEST(TrainingData, EndsAnEpochAtItsLimit) {
  auto group = one_rank();
  MadeUpData made_up(4);
  const TrainingData data(made_up, {.data = {.train_batches = 2, .validation_batches = 1}}, group);
  EXPECT_EQ(data.epoch_samples(), 8);
  EXPECT_TRUE(data.is_epoch_over(8));
  EXPECT_EQ(data.validation_samples(), 5);
}

// Data modules whose loaders are wrong in a way that users get wrong, on rank 1 alone or on every rank.
struct WrongData : MadeUpData {
  WrongData() : MadeUpData(4) {}
  std::unique_ptr<Loader> train_loader(Shard shard) override {
    const LoaderOptions options{.global_batch = batch, .shard = forgets_shard ? Shard{} : shard, .seed = seed};
    return std::make_unique<Loader>(source, options);
  }
  std::unique_ptr<Loader> validation_loader(Shard shard) override {
    return has_validation ? MadeUpData::validation_loader(shard) : nullptr;
  }
  bool forgets_shard = false;
  bool has_validation = true;
  std::uint64_t seed = 5;
};

std::string refusal(WrongData& data, Group& group) {
  return message_of(ErrorKind::kUsage, [&] { TrainingData(data, TrainerOptions{}, group); });
}

// The fault: each rank trained on the whole batch, and the weights moved twice as far.
RANKS_TEST(TrainingDataOfRanks, ThatForgetTheirShardIsRefused, 2) {
  WrongData data;
  data.forgets_shard = true;
  EXPECT_HAS(refusal(data, group), "train_loader() made a loader of shard 0 of 1, want");
}

RANKS_TEST(TrainingDataOfRanks, ThatShuffleByOtherSeedsIsRefused, 2) {
  WrongData data;
  data.seed = 5 + static_cast<std::uint64_t>(group.rank());
  EXPECT_HAS(refusal(data, group), "seed");
}

// The fault: the two ranks waited in different collectives for half an hour.
RANKS_TEST(TrainingDataOfRanks, OfWhichOneValidatesAloneIsRefused, 2) {
  WrongData data;
  data.has_validation = group.is_main();
  EXPECT_HAS(refusal(data, group), "the loader of validation_loader()");
}

TEST(BatchFeed, EndsAnAccumulatedStepAtTheEpochsEnd) {
  auto group = one_rank();
  MadeUpData made_up(4);
  const TrainingData data(made_up, {.step = {.accumulate = 4}}, group);
  BatchFeed feed(data, 4, group.device());
  feed.seek(0, 0);
  EXPECT_EQ(feed.next(0).batches.size(), 4U);
  const auto last = feed.next(16);
  EXPECT_EQ(last.batches.size(), 2U);
  EXPECT_EQ(last.global_samples, 6);
}

}  // namespace
}  // namespace lockstep
