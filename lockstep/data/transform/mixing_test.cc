// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/mixing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/golden_images.h"

namespace lockstep {
namespace {

TEST(Mixing, PairsNeighboursAndMixesBothAlike) {
  for (std::int64_t place = 0; place < 100; place += 2) {
    const Mix first = drawn_mix({.mixup_alpha = 1}, 3, 4, place, {32, 32});
    const Mix second = drawn_mix({.mixup_alpha = 1}, 3, 4, place + 1, {32, 32});
    EXPECT_EQ(first.partner, place + 1);
    EXPECT_EQ(second.partner, place);
    EXPECT_EQ(first.own, second.own);
    EXPECT_FALSE(first.is_cut);
    EXPECT_NE(first.own, drawn_mix({.mixup_alpha = 1}, 3, 5, place, {32, 32}).own);
  }
}

TEST(Mixing, DrawsSharesFromABetaDistribution) {
  for (const double alpha : {0.2, 1.0, 5.0}) {
    double sum = 0;
    double squares = 0;
    const int rounds = 20'000;
    for (int k = 0; k < rounds; ++k) {
      const double own = drawn_mix({.mixup_alpha = alpha}, 1, 0, 2 * k, {8, 8}).own;
      ASSERT_TRUE(own >= 0 && own <= 1);
      sum += own;
      squares += own * own;
    }
    const double mean = sum / rounds;
    EXPECT_NEAR(mean, 0.5, 0.01) << alpha;
    EXPECT_NEAR(squares / rounds - mean * mean, 1 / (4 * (2 * alpha + 1)), 0.004) << alpha;
  }
  const double tiny = drawn_mix({.mixup_alpha = 1e-3}, 1, 0, 0, {8, 8}).own;
  EXPECT_TRUE(tiny >= 0 && tiny <= 1);
}

TEST(Mixing, CutsABoxOfTheShareThatIsNotOwn) {
  double share_sum = 0;
  for (int k = 0; k < 5000; ++k) {
    const Mix mix = drawn_mix({.cutmix_alpha = 1}, 1, 0, 2 * k, {40, 30});
    ASSERT_TRUE(mix.is_cut);
    ASSERT_TRUE(mix.box.left >= 0 && mix.box.left + mix.box.width <= 40 && mix.box.width >= 0);
    ASSERT_TRUE(mix.box.top >= 0 && mix.box.top + mix.box.height <= 30 && mix.box.height >= 0);
    ASSERT_DOUBLE_EQ(mix.own, 1 - mix.box.width * mix.box.height / 1200.0);
    share_sum += mix.own;
  }
  // The border cuts boxes, so on average more than half of the image is kept.
  EXPECT_NEAR(share_sum / 5000, testing::golden_numbers("golden.json", "cutmix_own").get<double>(), 0.012);
}

TEST(Mixing, TakesEitherKindWhereBothAreAskedFor) {
  int cut = 0;
  for (int k = 0; k < 2000; ++k) cut += drawn_mix({.mixup_alpha = 1, .cutmix_alpha = 1}, 1, 0, 2 * k, {8, 8}).is_cut;
  EXPECT_NEAR(cut, 1000, 100);
}

}  // namespace
}  // namespace lockstep
