// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/sums/loss_counter.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;

TEST(LossCounter, WeighsEachSampleOfAnEpochEqually) {
  auto group = one_rank();
  LossCounter losses(group);
  losses.add(at::full({}, 2.0), 3, 1);
  losses.add(at::full({}, 6.0), 1, 2);
  EXPECT_EQ(losses.epoch_mean(), 3);
  EXPECT_EQ(losses.epoch_samples(), 4);
}

TEST(LossCounter, TakesTheLoggedMeanWithoutTouchingTheEpochs) {
  auto group = one_rank();
  LossCounter losses(group);
  losses.restore({.epoch = {10, 5}, .since_logged = {4, 2}});
  losses.add_sum({2, 1});
  EXPECT_EQ(losses.take_logged_mean(7), 2);
  EXPECT_EQ(losses.take_logged_mean(8), 0) << "nothing was counted since";
  EXPECT_EQ(losses.sums().epoch.total, 12);
  losses.begin_epoch();
  EXPECT_EQ(losses.epoch_samples(), 0);
}

TEST(LossCounter, NamesTheStepOfTheFirstLossThatIsNotFinite) {
  auto group = one_rank();
  LossCounter losses(group);
  losses.add(at::full({}, 1.0), 1, 1);
  losses.add(at::full({}, std::numeric_limits<double>::infinity()), 1, 2);
  losses.add(at::full({}, std::numeric_limits<double>::quiet_NaN()), 1, 3);
  const auto text = message_of(ErrorKind::kRecipe, [&] { losses.require_finite(losses.epoch_mean(), 3, 0); });
  EXPECT_HAS(text, "the training loss of epoch 0 is not finite: it was inf first at step 2");
}

}  // namespace
}  // namespace lockstep
