// SPDX-License-Identifier: Apache-2.0
// The fault: a loop that called loss.backward() itself averaged nothing, and the ranks' weights drifted apart without a
// message.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;

RANKS_TEST(PlainBackward, IsRefusedWithTheParameterThatGotAGradient, 2) {
  torch::nn::Linear net(3, 1);
  const auto input = torch::ones({2, 3});
  {
    DistributedDataParallel ddp(*net, group);
    const auto text = message_of(ErrorKind::kUsage, [&] { net(input).mean().backward(); });
    EXPECT_HAS(text, "got a gradient from a plain loss.backward()");
    EXPECT_TRUE(text.find("'weight'") != std::string::npos || text.find("'bias'") != std::string::npos) << text;
    EXPECT_HAS(text, "ddp.backward(loss, samples)");
    message_of(ErrorKind::kUsage, [&] {
      const auto held = ddp.no_sync();
      net(input).mean().backward();
    });
    net->zero_grad();
    ddp.backward(net(input).mean(), 2);
    EXPECT_TRUE(at::allclose(net->weight.grad(), torch::ones({1, 3})));
    // Gradients that are not added to the parameters, as by autograd::grad(), are allowed.
    torch::autograd::grad({net(input).mean()}, {net->weight});
  }
  net(input).mean().backward();
}

RANKS_TEST(PlainBackward, OfAnotherDistributedDataParallelMayPassThrough, 2) {
  torch::nn::Linear generator(3, 3);
  torch::nn::Linear discriminator(3, 1);
  DistributedDataParallel first(*generator, group);
  DistributedDataParallel second(*discriminator, group);
  first.backward(discriminator(generator(torch::ones({2, 3}))).mean(), 2);
  discriminator->zero_grad();
  second.backward(discriminator(torch::ones({2, 3})).mean(), 2);
}

RANKS_TEST(PlainBackward, IsLetThroughIfTheOptionsSaySo, 2) {
  torch::nn::Linear net(3, 1);
  DistributedDataParallel ddp(*net, group, {.permits_plain_backward = true});
  net(torch::ones({2, 3})).mean().backward();
}

TEST(PlainBackward, OfOneRankNeedsNoAverage) {
  auto group = one_rank();
  torch::nn::Linear net(3, 1);
  DistributedDataParallel ddp(*net, group);
  net(torch::ones({2, 3})).mean().backward();
}

}  // namespace
}  // namespace lockstep
