// SPDX-License-Identifier: Apache-2.0
// The fault: if a validation had fewer than 16 batches, a stop took effect only after it, however long the batches
// took.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>

#include "lockstep/base/clock.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

// Rank 1 takes a long time for each batch of validation.
struct Net : Module {
  explicit Net(int own_rank) : rank(own_rank) {
    torch::manual_seed(11);
    fc = register_module("fc", torch::nn::Linear(4, 3));
  }
  at::Tensor training_step(const Batch& batch) override {
    return at::cross_entropy_loss(fc(batch.input()), batch.target());
  }
  void validation_step(const Batch& batch) override {
    const auto start = Clock::now();
    if (++validated == 2 && rank == 1) ::raise(SIGTERM);
    at::Tensor loss;
    do {
      loss = training_step(batch);
    } while (rank == 1 && seconds_between(start, Clock::now()) < 0.6);
    log("val_loss", loss);
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5});
  }

  int rank;
  int validated = 0;
  torch::nn::Linear fc = nullptr;
};

// Validation has five batches.
RANKS_TEST(StopInSlowValidation, EndsItAfterThatBatch, 2) {
  testing::MadeUpData data(8);
  Net net(group.rank());
  Trainer trainer({.max_epochs = 3, .guard = {.sanity_check = false}});
  const auto result = trainer.fit(net, data, group);
  EXPECT_EQ(result.stopped_by, "signal");
  EXPECT_EQ(net.validated, 2);
  EXPECT_EQ(result.state.epoch, 0);
}

}  // namespace
}  // namespace lockstep
