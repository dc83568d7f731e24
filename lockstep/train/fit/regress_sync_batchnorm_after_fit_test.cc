// SPDX-License-Identifier: Apache-2.0
// The fault: after a training with sync_batchnorm, the layers still called the training loop, which had ended.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/models/batch_norm.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;

struct Net : Module {
  Net() {
    torch::manual_seed(11);
    norm = register_module("norm", std::make_shared<BatchNorm>(4));
    fc = register_module("fc", torch::nn::Linear(4, 3));
  }
  at::Tensor training_step(const Batch& batch) override {
    if (fails) throw std::runtime_error("bad");
    return at::cross_entropy_loss(fc(norm->forward(batch.input())), batch.target());
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.1});
  }

  bool fails = false;
  std::shared_ptr<BatchNorm> norm;
  torch::nn::Linear fc = nullptr;
};

// A BatchNorm layer refuses a batch with one number for each channel. If layers are synchronised, it does not, since
// other ranks may have more numbers.
void expect_own_statistics(Net& net) {
  net.train();
  EXPECT_HAS(message_of(ErrorKind::kRecipe,
                        [&] {
                          net.norm->forward(at::ones({1, 4}));
                        }),
             "want more than one number a channel");
}

TEST(SyncBatchNormAfterFit, TheModuleComputesItsOwnStatistics) {
  auto group = one_rank();
  Net net;
  MadeUpData data(8);
  Trainer({.step = {.sync_batchnorm = true}}).fit(net, data, group);
  expect_own_statistics(net);
}

TEST(SyncBatchNormAfterFit, AnExceptionTakesTheSyncAwayToo) {
  auto group = one_rank();
  Net net;
  net.fails = true;
  MadeUpData data(8);
  EXPECT_THROW(Trainer({.step = {.sync_batchnorm = true}}).fit(net, data, group), std::runtime_error);
  expect_own_statistics(net);
}

RANKS_TEST(SyncBatchNormAfterFit, TheModuleTrainsOnWithoutTheOtherRanks, 2) {
  Net net;
  MadeUpData data(8);
  Trainer({.step = {.sync_batchnorm = true}}).fit(net, data, group);
  expect_own_statistics(net);
  auto alone = one_rank();
  if (group.is_main()) Trainer().fit(net, data, alone);
}

}  // namespace
}  // namespace lockstep
