// SPDX-License-Identifier: Apache-2.0
// The fault: a model's own exception was reported as "a peer rank was lost" if its text mentioned NCCL or a timeout.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>

#include "lockstep/comm/data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

TEST(DataParallel, LeavesAnExceptionOfTheModelAsItIsWhateverItsWords) {
  auto group = testing::one_rank();
  torch::nn::Linear net(5, 3);
  DistributedDataParallel parallel(*net, group);
  const auto loss = net(at::ones({4, 5})).sum();
  loss.register_hook([](const at::Tensor&) -> at::Tensor { throw std::out_of_range("NCCL timed out, says the user"); });
  EXPECT_THROW(parallel.backward(loss, 4), std::out_of_range);
}

}  // namespace
}  // namespace lockstep
