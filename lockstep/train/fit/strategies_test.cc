// SPDX-License-Identifier: Apache-2.0
// Tests that several ranks, copies in threads and compression train like one rank, or differ from it as documented.
#include <gtest/gtest.h>
#include <torch/torch.h>

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
using testing::TemporaryFolder;

// A network of two layers in double. On request it has BatchNorm between them, or fails at one sample.
struct Net : Module {
  explicit Net(bool normalises = false, std::int64_t width = 8) : normalises_(normalises), width_(width) {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, width));
    if (normalises) norm = register_module("norm", std::make_shared<BatchNorm>(width));
    fc2 = register_module("fc2", torch::nn::Linear(width, 3));
    to(at::kDouble);
  }
  at::Tensor guesses(const Batch& batch) {
    auto hidden = fc1(batch.input().to(at::kDouble));
    if (norm) hidden = norm->forward(hidden);
    return fc2(torch::tanh(hidden));
  }
  at::Tensor training_step(const Batch& batch) override {
    if (std::find(batch.ids.begin(), batch.ids.end(), bad_sample) != batch.ids.end()) throw std::runtime_error("bad");
    const auto loss = at::cross_entropy_loss(guesses(batch), batch.target());
    log("train_mean", loss);
    return loss;
  }
  void validation_step(const Batch& batch) override {
    const auto made = guesses(batch);
    log("val_loss", at::cross_entropy_loss(made, batch.target()));
    log("val_accuracy", made.argmax(1).eq(batch.target()).to(at::kDouble).mean());
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.3, .momentum = 0.9});
  }
  std::unique_ptr<Module> replica() const override {
    if (!makes_replicas) return Module::replica();
    auto other = std::make_unique<Net>(normalises_, width_);
    other->bad_sample = bad_sample;
    return other;
  }

  bool makes_replicas = true;
  std::int64_t bad_sample = -1;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
  std::shared_ptr<BatchNorm> norm;

 private:
  bool normalises_;
  std::int64_t width_;
};

struct Fitted {
  Net net;
  FitResult result;
};

Fitted fitted(Group& group, const TrainerOptions& options, MadeUpData data, bool normalises = false) {
  Fitted out{.net = Net(normalises), .result = {}};
  out.result = Trainer(options).fit(out.net, data, group);
  return out;
}

double largest_difference(const Net& a, const Net& b) {
  double largest = 0;
  const auto take = [&](const auto& one, const auto& other) {
    for (std::size_t i = 0; i < one.size(); ++i) {
      largest = std::max(largest, (one[i] - other[i]).abs().max().template item<double>());
    }
  };
  take(a.parameters(), b.parameters());
  take(a.buffers(), b.buffers());
  return largest;
}

void expect_same_training(const Fitted& ours, const Fitted& wanted, double tolerance, const std::string& what) {
  EXPECT_LE(largest_difference(ours.net, wanted.net), tolerance) << what;
  EXPECT_EQ(ours.result.state.digest.hex(), wanted.result.state.digest.hex()) << what;
  for (const auto& [name, value] : wanted.result.state.metrics) {
    EXPECT_NEAR(ours.result.state.metrics.at(name), value, tolerance) << what << " " << name;
  }
}

TEST(Replicas, TrainAsOneRankDoesOnTheWholeBatch) {
  auto group = one_rank();
  const TrainerOptions options{.max_epochs = 3, .log_every = 1};
  const auto one = fitted(group, options, MadeUpData(8));
  for (const std::int64_t count : {2, 3, 7}) {
    auto with = options;
    with.step.replicas = count;
    with.step.accumulate = 1;
    expect_same_training(fitted(group, with, MadeUpData(8)), one, 1e-12, std::to_string(count) + " replicas");
  }
  auto accumulating = options;
  accumulating.step = {.accumulate = 2, .replicas = 3};
  expect_same_training(fitted(group, accumulating, MadeUpData(4)), one, 1e-12, "accumulated");
}

TEST(Replicas, AModuleThatMakesNoneIsRefused) {
  auto group = one_rank();
  Net net;
  net.makes_replicas = false;
  MadeUpData data(8);
  const auto text = message_of(ErrorKind::kUsage, [&] { Trainer({.step = {.replicas = 2}}).fit(net, data, group); });
  EXPECT_HAS(text, "strategy dp trains copies of the module");
}

TEST(Replicas, WhatOneThrowsEndsTheTraining) {
  auto group = one_rank();
  for (std::int64_t sample = 0; sample < 22; sample += 7) {
    Net net;
    net.bad_sample = sample;
    MadeUpData data(22);
    EXPECT_THROW(Trainer({.step = {.replicas = 4}}).fit(net, data, group), std::runtime_error) << sample;
  }
}

RANKS_TEST(Replicas, AreForOneRank, 2) {
  Net net;
  MadeUpData data(8);
  const auto text = message_of(ErrorKind::kRecipe, [&] { Trainer({.step = {.replicas = 2}}).fit(net, data, group); });
  EXPECT_HAS(text, "strategy dp has one rank, and there are 2");
}

// Global batches of 5 and a last one of 2: some ranks have two samples, some one, some none.
RANKS_TEST(SyncBatchNorm, TrainsOnThreeRanksAsOnOne, 3) {
  TrainerOptions options{.max_epochs = 3, .log_every = 1};
  auto alone = one_rank();
  const auto one = fitted(alone, options, MadeUpData(5), /*normalises=*/true);
  const auto apart = fitted(group, options, MadeUpData(12, 24), /*normalises=*/true);
  const auto apart_on_one = fitted(alone, options, MadeUpData(12, 24), /*normalises=*/true);
  EXPECT_GT(largest_difference(apart.net, apart_on_one.net), 1e-3) << "it makes no difference here: the check is blind";
  options.step.sync_batchnorm = true;
  expect_same_training(fitted(group, options, MadeUpData(5), /*normalises=*/true), one, 1e-10, "synchronised");
}

void expect_any_size_trains(Group& group) {
  auto alone = one_rank();
  for (std::int64_t samples = 1; samples <= 17; ++samples) {
    const TrainerOptions options{.max_epochs = 2, .log_every = 1};
    const MadeUpData data(std::min<std::int64_t>(samples, 5), samples);
    const auto one = fitted(alone, options, data);
    const auto ours = fitted(group, options, data);
    const auto what = std::to_string(samples) + " samples";
    expect_same_training(ours, one, 1e-12, what);
    EXPECT_EQ(ours.result.state.samples, 2 * samples) << what;
  }
}

RANKS_TEST(UnevenData, OfAnySizeTrainOnTwoRanksAsOnOne, 2) { expect_any_size_trains(group); }
RANKS_TEST(UnevenData, OfAnySizeTrainOnThreeRanksAsOnOne, 3) { expect_any_size_trains(group); }
RANKS_TEST(UnevenData, OfAnySizeTrainOnFourRanksAsOnOne, 4) { expect_any_size_trains(group); }

RANKS_TEST(Compression, ARunThatGoesOnFromASnapshotIsBitEqual, 2) {
  const TemporaryFolder folder;
  const std::string shared = group.broadcast_text(folder.path().string());
  TrainerOptions options{.max_steps = 12,
                         .snapshot = {.folder = std::filesystem::path(shared) / "whole", .every_steps = 6}};
  options.max_epochs = 0;
  options.step.parallel.compression = {.kind = Compression::kPowerSgd, .start_step = 3, .min_rate = 0.1};
  const auto whole = fitted(group, options, MadeUpData(5));
  auto resumed = options;
  resumed.snapshot.folder = std::filesystem::path(shared) / "resumed";
  resumed.snapshot.resume_from = options.snapshot.folder / "step-0000000006";
  EXPECT_EQ(fitted(group, resumed, MadeUpData(5)).result.weights_digest, whole.result.weights_digest);
  options.step.parallel.compression = {};
  options.snapshot.folder.clear();
  EXPECT_GT(largest_difference(fitted(group, options, MadeUpData(5)).net, whole.net), 1e-6) << "the check is blind";
}

}  // namespace
}  // namespace lockstep
