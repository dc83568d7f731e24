// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/meter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

TEST(WeightedMean, WeighsEachSampleOnce) {
  WeightedMean mean;
  mean.add(1.0, 3);
  mean.add(5.0, 1);
  EXPECT_DOUBLE_EQ(mean.mean(), 2.0);
  EXPECT_EQ(mean.weight(), 4);
}

TEST(WeightedMean, OfNothingIsNotANumber) { EXPECT_TRUE(std::isnan(WeightedMean().mean())); }

TEST(WeightedMean, IgnoresTheMeanOfNoSamples) {
  WeightedMean mean;
  mean.add(2.0, 4);
  mean.add(std::nan(""), 0);
  EXPECT_DOUBLE_EQ(mean.mean(), 2.0);
}

TEST(WeightedMean, OfTwoPartsIsThatOfTheWhole) {
  WeightedMean left;
  WeightedMean right;
  WeightedMean whole;
  for (int i = 0; i < 10; ++i) {
    (i < 4 ? left : right).add(i, i + 1);
    whole.add(i, i + 1);
  }
  left.add(right);
  EXPECT_DOUBLE_EQ(left.mean(), whole.mean());
  left.reset();
  EXPECT_EQ(left.weight(), 0);
}

TEST(IntervalRate, CountsSinceItWasLastTaken) {
  IntervalRate rate;
  EXPECT_EQ(rate.take(), 0);
  rate.add(100, 2.0);
  EXPECT_DOUBLE_EQ(rate.take(), 50);
  rate.add(10, 1.0);
  EXPECT_DOUBLE_EQ(rate.take(), 10);
}

TEST(Throughput, IsExactWithinTheWindow) {
  Throughput throughput(8);
  EXPECT_EQ(throughput.per_second(), 0);
  for (int i = 0; i < 30; ++i) throughput.add(50, 0.1);
  EXPECT_NEAR(throughput.per_second(), 500, 1e-9);
}

TEST(Throughput, ForgetsWhatIsOlderThanTheWindow) {
  Throughput throughput(8);
  for (int i = 0; i < 1000; ++i) throughput.add(1, 1.0);
  for (int i = 0; i < 9; ++i) throughput.add(100, 1.0);
  EXPECT_NEAR(throughput.per_second(), 100, 1e-9);
}

TEST(Throughput, TakesAStepLongerThanTheWindow) {
  Throughput throughput(1);
  for (int i = 0; i < 20; ++i) throughput.add(300, 100.0);
  EXPECT_NEAR(throughput.per_second(), 3, 1e-9);
}

}  // namespace
}  // namespace lockstep
