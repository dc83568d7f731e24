// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/trained_model.h"

#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "tests/support/training_parts.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;
using testing::SmallNet;

// A module with two trained numbers. With SGD and rate 1 the update is weight -= gradient.
struct TwoNumbers : Module {
  TwoNumbers() { weight = register_parameter("weight", at::zeros({2})); }
  at::Tensor training_step(const Batch&) override { return (weight * at::tensor({3.0F, 4.0F})).sum(); }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return std::make_unique<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(1.0));
  }
  ScheduleOptions configure_schedule(const TrainingPlan&) override {
    return {.schedule = ExponentialSchedule{.gamma = 0.5}, .by_step = true};
  }
  at::Tensor weight;
};

// Returns the weight after one step with the gradient (3, 4), whose norm is 5.
at::Tensor weight_after_step(const StepOptions& options) {
  auto group = one_rank();
  TwoNumbers net;
  TrainedModel model(net, group, options, {});
  model.connect({});
  model.prepare_step(0, 0);
  auto loss = net.training_step({});
  model.parallel().backward(model.scaler() != nullptr ? model.scaler()->scaled(loss) : loss, 1, 1);
  model.update();
  EXPECT_TRUE(!net.weight.grad().defined() || net.weight.grad().abs().sum().item<double>() == 0);
  return net.weight.detach();
}

TEST(TrainedModel, MovesWeightsByTheOptimizer) { EXPECT_TRUE(weight_after_step({}).equal(at::tensor({-3.0F, -4.0F}))); }

TEST(TrainedModel, ClipsByNormAndByValue) {
  EXPECT_TRUE(weight_after_step({.clip_norm = 1}).allclose(at::tensor({-0.6F, -0.8F})));
  EXPECT_TRUE(weight_after_step({.clip_norm = 6}).allclose(at::tensor({-3.0F, -4.0F})));
  EXPECT_TRUE(weight_after_step({.clip_value = 3.5}).equal(at::tensor({-3.0F, -3.5F})));
}

TEST(TrainedModel, ScalesLossesForFp16Alone) {
  EXPECT_TRUE(weight_after_step({.precision = Precision::kFp16, .clip_norm = 1}).allclose(at::tensor({-0.6F, -0.8F})));
  auto group = one_rank();
  for (const auto precision : {Precision::kFp32, Precision::kFp16}) {
    TwoNumbers net;
    const StepOptions options{.precision = precision};
    EXPECT_EQ(TrainedModel(net, group, options, {}).scaler() != nullptr, precision == Precision::kFp16);
  }
}

TEST(TrainedModel, AnOverflowChangesNoWeight) {
  auto group = one_rank();
  TwoNumbers net;
  const StepOptions options{.precision = Precision::kFp16};
  TrainedModel model(net, group, options, {});
  model.connect({});
  const auto scale = model.scaler()->state().at("scale");
  net.weight.mutable_grad() = at::tensor({1.0F, std::numeric_limits<float>::infinity()});
  model.update();
  EXPECT_TRUE(net.weight.detach().equal(at::zeros({2})));
  EXPECT_EQ(model.scaler()->state().at("scale"), scale / 2);
}

TEST(TrainedModel, TakesTheRateOfTheStep) {
  auto group = one_rank();
  TwoNumbers net;
  const StepOptions options;
  TrainedModel model(net, group, options, {});
  for (const auto& [step, rate] : {std::pair{0, 1.0}, std::pair{2, 0.25}}) {
    model.prepare_step(step, 0);
    EXPECT_DOUBLE_EQ(model.optimizer().param_groups()[0].options().get_lr(), rate);
  }
}

TEST(TrainedModel, ATiedWeightIsTrainedOnceAndAFrozenOneIsNot) {
  auto group = one_rank();
  SmallNet net;
  net.register_parameter("tied", net.fc1->weight);
  net.fc2->bias.set_requires_grad(false);
  const StepOptions options;
  EXPECT_EQ(TrainedModel(net, group, options, {}).weights().size(), 3);
}

TEST(TrainedModel, PowersgdIsRefusedWithFp16) {
  auto group = one_rank();
  TwoNumbers net;
  const StepOptions options{.precision = Precision::kFp16};
  TrainedModel model(net, group, options, {});
  const DataParallelOptions parallel{.compression = {.kind = Compression::kPowerSgd}};
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { model.connect(parallel); }), "powersgd with precision fp16");
}

RANKS_TEST(TrainedModelOfRanks, AveragesGradientsAndHandsOnSignals, 2) {
  TwoNumbers net;
  const StepOptions options;
  TrainedModel model(net, group, options, {});
  model.connect({});
  model.raise({.stop = !group.is_main()});
  const auto loss = net.training_step({}) * (1.0 + group.rank());
  model.parallel().backward(loss, 1, 2);
  EXPECT_TRUE(net.weight.grad().equal(at::tensor({4.5F, 6.0F})));
  EXPECT_TRUE(model.parallel().agreed(Signal::kStop));
  EXPECT_FALSE(model.parallel().agreed(Signal::kSnapshot));
}

// A step that could not be recorded is made again. The signals that this rank raised must not be lost.
RANKS_TEST(TrainedModelOfRanks, SignalsOutliveANewConnection, 2) {
  TwoNumbers net;
  const StepOptions options;
  TrainedModel model(net, group, options, {});
  model.connect({});
  model.raise({.snapshot = group.is_main()});
  model.reconnect();
  model.parallel().backward(net.training_step({}), 1, 2);
  EXPECT_TRUE(model.parallel().agreed(Signal::kSnapshot));
  EXPECT_FALSE(model.parallel().agreed(Signal::kStop));
}

}  // namespace
}  // namespace lockstep
