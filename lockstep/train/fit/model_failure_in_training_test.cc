// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/train/evaluation.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/model_failure.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;

struct TheirOwn : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A model whose own code fails in one of its steps.
struct Net : Module {
  Net() { fc = register_module("fc", torch::nn::Linear(4, 3)); }
  at::Tensor training_step(const Batch& batch) override {
    if (++steps == fails_at) throw TheirOwn("no such speaker\nand more");
    return at::cross_entropy_loss(fc(batch.input()), batch.target());
  }
  void validation_step(const Batch& batch) override { log("val_loss", fc(batch.input().flatten()).sum()); }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.1});
  }

  int steps = 0;
  int fails_at = 0;
  torch::nn::Linear fc = nullptr;
};

TEST(ModelFailure, InTrainingSaysWhereAndKeepsTheOriginal) {
  auto group = one_rank();
  MadeUpData data(10);
  Net net;
  net.fails_at = 2;
  bool is_kept = false;
  const auto text = message_of(ErrorKind::kRecipe, [&] {
    try {
      Trainer({.data = {.validate_every = 0}}).fit(net, data, group);
    } catch (const std::exception& error) {
      try {
        std::rethrow_if_nested(error);
      } catch (const TheirOwn&) {
        is_kept = true;
      }
      throw;
    }
  });
  EXPECT_HAS(text, "the model failed in training step 2 of epoch 0, with an input of [");
  EXPECT_HAS(text, "no such speaker\n  hint: ");
  EXPECT_TRUE(is_kept);
}

TEST(ModelFailure, InValidationSaysSo) {
  auto group = one_rank();
  MadeUpData data(10);
  Net net;
  const auto text = message_of(ErrorKind::kRecipe, [&] { Trainer().fit(net, data, group); });
  EXPECT_HAS(text, "the model failed in validation, with an input of [");
  EXPECT_HAS(text, "shapes cannot be multiplied");
}

TEST(ModelFailure, IsNoFailureOfADeviceAndNoErrorOfOurs) {
  EXPECT_TRUE(is_model_failure(std::runtime_error("anything")));
  EXPECT_FALSE(is_model_failure(Error(ErrorKind::kData, "a sample")));
  EXPECT_FALSE(is_model_failure(std::runtime_error("CUDA error: device-side assert")));
}

}  // namespace
}  // namespace lockstep
