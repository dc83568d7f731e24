// SPDX-License-Identifier: Apache-2.0
// The fault: the loss of a rank without samples counts nothing, but a loss that was not finite still made every
// gradient NaN.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "lockstep/comm/data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

RANKS_TEST(StandInLoss, ThatIsNotFiniteCountsNothing, 2) {
  torch::nn::Linear net(3, 1);
  DistributedDataParallel ddp(*net, group);
  const bool has_samples = group.is_main();
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    net->zero_grad();
    const auto input = torch::full({2, 3}, has_samples ? 1.0 : bad);
    ddp.backward(net(input).mean(), has_samples ? 2 : 0);
    EXPECT_TRUE(at::allclose(net->weight.grad(), torch::ones({1, 3}))) << net->weight.grad();
    EXPECT_TRUE(at::allclose(net->bias.grad(), torch::ones({1}))) << net->bias.grad();
  }
}

}  // namespace
}  // namespace lockstep
