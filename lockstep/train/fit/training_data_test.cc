// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/training_data.h"

#include <gtest/gtest.h>

#include "lockstep/train/fit/batch_feed.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
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
