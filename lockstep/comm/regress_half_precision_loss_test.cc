// SPDX-License-Identifier: Apache-2.0
// The fault: a loss in half precision was multiplied by a number of samples that half precision rounds or cannot hold.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::one_rank;

// A network whose loss is its weight times a number. So that number is the gradient.
struct Weight : torch::nn::Module {
  explicit Weight(at::ScalarType type) { value = register_parameter("value", at::ones({}, type)); }
  at::Tensor loss_with_gradient(double gradient) const { return value * gradient; }
  double gradient() const { return value.grad().item<double>(); }

  at::Tensor value;
};

constexpr double kShare = 0.99609375;  // 259 of 260, as bfloat16 has it.

RANKS_TEST(HalfPrecisionLoss, IsWeighedBySamplesOnTwoRanks, 2) {
  Weight module(at::kBFloat16);
  DistributedDataParallel ddp(module, group);
  ddp.backward(module.loss_with_gradient(group.is_main() ? 1 : 0), group.is_main() ? 259 : 1);
  EXPECT_EQ(module.gradient(), kShare);
}

RANKS_TEST(HalfPrecisionLoss, OfManySamplesIsFiniteOnTwoRanks, 2) {
  Weight module(at::kHalf);
  DistributedDataParallel ddp(module, group);
  ddp.backward(module.loss_with_gradient(group.is_main() ? 1 : 3), 70'000);
  EXPECT_EQ(module.gradient(), 2.0);
}

RANKS_TEST(HalfPrecisionLoss, OfARankWithoutSamplesCountsNothing, 2) {
  Weight module(at::kHalf);
  DistributedDataParallel ddp(module, group);
  ddp.backward(group.is_main() ? module.loss_with_gradient(3) : at::Tensor(), group.is_main() ? 70'000 : 0);
  EXPECT_EQ(module.gradient(), 3.0);
}

RANKS_TEST(HalfPrecisionLoss, AccumulatesBySamplesOnTwoRanks, 2) {
  Weight module(at::kHalf);
  DistributedDataParallel ddp(module, group);
  {
    const auto guard = ddp.no_sync();
    ddp.backward(module.loss_with_gradient(4), 30'000);
    ddp.backward(module.loss_with_gradient(2), 30'000);
  }
  ddp.backward(module.loss_with_gradient(1), 60'000);
  EXPECT_EQ(module.gradient(), 2.0);
  // The next step adds its gradients to those that exist.
  ddp.backward(module.loss_with_gradient(3), 10);
  EXPECT_EQ(module.gradient(), 5.0);
}

TEST(HalfPrecisionLoss, IsWeighedBySamplesOnOneRank) {
  auto group = one_rank();
  Weight many(at::kHalf);
  DistributedDataParallel(many, group).backward(many.loss_with_gradient(1), 70'000);
  EXPECT_EQ(many.gradient(), 1.0);
  Weight uneven(at::kBFloat16);
  DistributedDataParallel ddp(uneven, group);
  {
    const auto guard = ddp.no_sync();
    ddp.backward(uneven.loss_with_gradient(1), 259);
  }
  ddp.backward(uneven.loss_with_gradient(0), 1);
  EXPECT_EQ(uneven.gradient(), kShare);
}

}  // namespace
}  // namespace lockstep
