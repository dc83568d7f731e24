// SPDX-License-Identifier: Apache-2.0
// The fault: strategy dp added the gradient of a tied weight once for each name of the weight.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "lockstep/train/optim/parameter_groups.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"
#include "tests/support/step_losses.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::one_rank;

// Two layers with the same weight and bias, which parameters() lists twice.
struct TiedNet : Module {
  TiedNet() {
    torch::manual_seed(11);
    weight = register_parameter("weight", torch::randn({4, 4}, at::kDouble));
    bias = register_parameter("bias", torch::randn({4}, at::kDouble));
    register_parameter("decoder_weight", weight);
    register_parameter("decoder_bias", bias);
  }
  at::Tensor training_step(const Batch& batch) override {
    const auto hidden = torch::tanh(at::linear(batch.input().to(at::kDouble), weight, bias));
    return at::cross_entropy_loss(at::linear(hidden, weight, bias), batch.target());
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(*this, {.name = "sgd", .lr = 0.3, .momentum = 0.9}, {});
  }
  std::unique_ptr<Module> replica() const override { return std::make_unique<TiedNet>(); }

  at::Tensor weight, bias;
};

std::vector<double> losses_of_training(Group& group, std::int64_t replicas) {
  TiedNet net;
  MadeUpData data(8);
  testing::StepLosses losses;
  Trainer trainer({.max_epochs = 3, .log_every = 1, .step = {.replicas = replicas}});
  trainer.add(losses);
  trainer.fit(net, data, group);
  return losses.values;
}

void expect_losses(const std::vector<double>& losses, const std::vector<double>& wanted) {
  ASSERT_EQ(losses.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(losses[i], wanted[i], 1e-12) << "at step " << i;
}

TEST(TiedWeights, TrainInReplicasAsInOneModule) {
  auto group = one_rank();
  const auto single = losses_of_training(group, 1);
  for (const std::int64_t replicas : {2, 3}) expect_losses(losses_of_training(group, replicas), single);
}

RANKS_TEST(TiedWeights, TrainOnTwoRanksAsInReplicas, 2) {
  auto alone = one_rank();
  expect_losses(losses_of_training(group, 1), losses_of_training(alone, 2));
}

}  // namespace
}  // namespace lockstep
