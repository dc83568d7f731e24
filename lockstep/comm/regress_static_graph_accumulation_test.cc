// SPDX-License-Identifier: Apache-2.0
// The fault: a static graph's reducer is made in the middle of the first step. The gradients of that step's earlier
// batches became views of its buckets, which c10d divides by the number of ranks, while it multiplies other gradients
// by the inverse. So with three ranks the first step after a resume differed in the last bit from the same step of a
// run left alone.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

RANKS_TEST(StaticGraph, TheFirstAccumulatedStepAfterAResumeIsThatOfARunLeftAlone, 3) {
  torch::manual_seed(3);
  torch::nn::Linear net(40, 7);
  const auto x = at::randn({2, 3, 5, 40})[0][group.rank()];
  const auto y = at::randn({3, 5, 40})[group.rank()];
  const auto gradient_of_step = [&](DistributedDataParallel& parallel) {
    net->zero_grad();
    {
      const auto held = parallel.no_sync();
      parallel.backward(net->forward(x).tanh().mean(), 5, 30);
    }
    parallel.backward(net->forward(y).tanh().mean(), 5, 30);
    return net->weight.grad().clone();
  };
  DistributedDataParallel alone(*net, group, {.static_graph = true});
  gradient_of_step(alone);
  const auto wanted = gradient_of_step(alone);
  DistributedDataParallel resumed(*net, group, {.static_graph = true, .layout = alone.layout()});
  EXPECT_TRUE(at::equal(gradient_of_step(resumed), wanted));
}

}  // namespace
}  // namespace lockstep
