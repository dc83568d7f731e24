// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/guard/finite_gradients.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

namespace lockstep {
namespace {

TEST(AllFinite, FindsEachKindAtEachPlaceInEachType) {
  constexpr auto kInfinity = std::numeric_limits<double>::infinity();
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const std::int64_t size : {1, 31, 4096, 4097, 9000}) {
      auto tensor = at::full({size}, 65000.0, type);
      ASSERT_TRUE(all_finite({at::zeros({3}, type), tensor})) << type;
      for (const auto place : {std::int64_t{0}, size / 2, size - 1}) {
        for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
          auto spoilt = tensor.clone();
          spoilt[place].fill_(bad);
          EXPECT_FALSE(all_finite({at::zeros({3}, type), spoilt})) << type << " " << size << " " << place << " " << bad;
          EXPECT_FALSE(all_finite({at::stack({spoilt, tensor}).t()}));
        }
      }
    }
  }
  EXPECT_TRUE(all_finite({at::full({4}, -1, at::kLong), at::empty({0})}));
  EXPECT_TRUE(all_finite({}));
  EXPECT_TRUE(all_finite({at::full({3}, std::numeric_limits<float>::max()), at::full({3}, 1e-45F)}));
}

TEST(FindNonfinite, TellsThePresentGradientsAlone) {
  auto found = at::zeros({1});
  const auto bad = at::full({3}, std::nan(""));
  const auto good = at::ones({3});
  find_nonfinite({good, bad}, found);
  EXPECT_EQ(found.item<float>(), 1);
  find_nonfinite({good}, found);
  EXPECT_EQ(found.item<float>(), 0);
  EXPECT_TRUE(at::equal(good, at::ones({3})));
  find_nonfinite({}, found);
  EXPECT_EQ(found.item<float>(), 0);
}

}  // namespace
}  // namespace lockstep
