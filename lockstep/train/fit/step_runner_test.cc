// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/step_runner.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/train/optim/optimizer.h"
#include "tests/support/connected_parts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;

// A network in double, trained by SGD with rate 0.5 and without momentum. So a step is w - 0.5 · gradient.
struct Net : Module {
  Net() {
    torch::manual_seed(11);
    fc = register_module("fc", torch::nn::Linear(4, 3));
    to(at::kDouble);
  }
  at::Tensor loss(const Batch& batch) {
    return at::cross_entropy_loss(fc(batch.input().to(at::kDouble)), batch.target());
  }
  at::Tensor training_step(const Batch& batch) override {
    if (fails) throw std::runtime_error("no such shape");
    drawn.push_back(at::rand({}).item<double>());
    const auto value = loss(batch);
    log("train_mean", value);
    return value;
  }
  std::unique_ptr<Module> replica() const override { return std::make_unique<Net>(); }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5});
  }

  bool fails = false;
  std::vector<double> drawn;
  torch::nn::Linear fc = nullptr;
};

using Parts = testing::ConnectedParts<Net>;

StepBatches read_step(Loader& loader, int batches) {
  StepBatches step;
  loader.seek(0, 0);
  for (int i = 0; i < batches; ++i) {
    step.batches.push_back(*loader.next());
    step.global_samples += step.batches.back().global_samples;
  }
  return step;
}

// The results of LibTorch's own autograd for one step over the first samples, all in one batch on one rank.
struct Expected {
  explicit Expected(const SampleSource& source, std::int64_t samples) {
    Loader loader(std::shared_ptr<const SampleSource>(&source, [](const auto*) {}),
                  {.global_batch = samples, .seed = 5});
    Net net;
    const auto value = net.loss(*loader.next());
    value.backward();
    loss = value.item<double>();
    weight = net.fc->weight.detach() - 0.5 * net.fc->weight.grad();
  }

  double loss = 0;
  at::Tensor weight;
};

void expect_step(Parts& parts, int batches, const Expected& wanted) {
  StepRunner runner(parts.model, parts.forward, parts.losses, parts.options.step);
  runner.run(read_step(parts.data.train(), batches), {});
  EXPECT_TRUE(at::allclose(parts.net.fc->weight, wanted.weight, 1e-12, 1e-12));
  EXPECT_NEAR(parts.losses.epoch_mean(), wanted.loss, 1e-12);
  EXPECT_NEAR(parts.net.metrics().over_ranks(parts.group).at("train_mean"), wanted.loss, 1e-12);
  const auto& gradient = parts.net.fc->weight.grad();
  EXPECT_TRUE(!gradient.defined() || !gradient.any().item<bool>()) << "the next step begins with these gradients";
}

TEST(StepRunner, MakesTheStepOfPlainAutograd) {
  auto group = one_rank();
  Parts parts(group, MadeUpData(8));
  expect_step(parts, 1, Expected(*parts.made_up.source, 8));
}

// There are 22 samples, so the third batch of 8 has only 6.
TEST(StepRunner, WeighsEachSampleOnceOverUnevenBatches) {
  auto group = one_rank();
  Parts parts(group, MadeUpData(8), {.step = {.accumulate = 3}});
  expect_step(parts, 3, Expected(*parts.made_up.source, 22));
}

RANKS_TEST(StepRunner, AveragesOverTheSamplesOfAllRanks, 3) {
  Parts parts(group, MadeUpData(8), {.step = {.accumulate = 3}});
  expect_step(parts, 3, Expected(*parts.made_up.source, 22));
}

RANKS_TEST(StepRunner, TakesARankWithoutSamplesAlong, 3) {
  Parts parts(group, MadeUpData(2));
  expect_step(parts, 1, Expected(*parts.made_up.source, 2));
  EXPECT_EQ(parts.net.drawn.size(), group.rank() == 2 ? 0U : 1U);
}

TEST(StepRunner, MakesTheSameStepWithReplicas) {
  auto group = one_rank();
  Parts parts(group, MadeUpData(8), {.step = {.replicas = 3}});
  expect_step(parts, 1, Expected(*parts.made_up.source, 8));
}

TEST(StepRunner, DrawsTheSameInAStepThatIsMadeAgain) {
  auto group = one_rank();
  Parts parts(group, MadeUpData(8));
  StepRunner runner(parts.model, parts.forward, parts.losses, parts.options.step);
  const auto step = read_step(parts.data.train(), 2);
  for (const std::int64_t number : {4, 4, 5}) runner.run(step, {.step = number});
  const auto& drawn = parts.net.drawn;
  ASSERT_EQ(drawn.size(), 6U);
  EXPECT_NE(drawn[0], drawn[1]) << "batches of a step";
  EXPECT_EQ(drawn[0], drawn[2]);
  EXPECT_EQ(drawn[1], drawn[3]);
  EXPECT_NE(drawn[0], drawn[4]) << "steps";
}

TEST(StepRunner, NamesTheStepInWhichTheModelFailed) {
  auto group = one_rank();
  Parts parts(group, MadeUpData(8));
  parts.net.fails = true;
  StepRunner runner(parts.model, parts.forward, parts.losses, parts.options.step);
  const auto step = read_step(parts.data.train(), 1);
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { runner.run(step, {.step = 6, .epoch = 2}); }),
             "the model failed in training step 7 of epoch 2");
}

RANKS_TEST(StepRunner, RefusesReplicasOnSeveralRanks, 2) {
  Parts parts(group, MadeUpData(8), {.step = {.replicas = 2}});
  EXPECT_HAS(
      message_of(ErrorKind::kRecipe, [&] { StepRunner(parts.model, parts.forward, parts.losses, parts.options.step); }),
      "strategy dp has one rank, and there are 2");
}

}  // namespace
}  // namespace lockstep
