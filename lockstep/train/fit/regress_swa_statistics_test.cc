// SPDX-License-Identifier: Apache-2.0
// Three faults: without a validation, SWA's weights were saved with the BatchNorm statistics of the last step. A stop
// in validation counted an epoch twice. A resume mixed averages of two kinds.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>

#include "lockstep/base/error.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/models/batch_norm.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "lockstep/train/weight_average.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;
using testing::TemporaryFolder;

// A network with dropout before BatchNorm, so that the statistics depend on the random numbers of dropout. In the
// statistics pass the network runs in training mode without a graph.
struct Net : Module {
  Net() {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    norm = register_module("norm", std::make_shared<BatchNorm>(8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
  }
  at::Tensor loss(const Batch& batch) {
    const auto hidden = torch::dropout(fc1(batch.input()), 0.3, is_training());
    return at::cross_entropy_loss(fc2(torch::tanh(norm->forward(hidden))), batch.target());
  }
  at::Tensor training_step(const Batch& batch) override {
    if (!at::GradMode::is_enabled()) {
      ++batches_in_pass;
      autocasts_in_pass = at::autocast::is_autocast_enabled(at::kCPU);
      if (batches_in_pass == signal_in_pass) ::raise(SIGTERM);
    }
    const auto value = loss(batch);
    log("train_mean", value);
    return value;
  }
  void validation_step(const Batch& batch) override {
    if (++validated == signal_in_validation) ::raise(SIGTERM);
    log("val_loss", loss(batch));
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5, .momentum = 0.9});
  }

  std::int64_t batches_in_pass = 0, signal_in_pass = -1;
  std::int64_t validated = 0, signal_in_validation = -1;
  bool autocasts_in_pass = false;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
  std::shared_ptr<BatchNorm> norm;
};

// Ranks check for a stop every 16 batches. Validation has 66 batches, and an epoch 33.
struct Data : MadeUpData {
  Data() : MadeUpData(2, 66) {}
  std::unique_ptr<Loader> validation_loader(Shard shard) override {
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = 1, .shard = shard, .shuffle = false});
  }
};

TrainerOptions options_in(const TemporaryFolder& folder) {
  return {.max_epochs = 3, .snapshot = {.folder = folder.path() / "snapshots"}, .guard = {.sanity_check = false}};
}

FitResult fitted(Net& net, Group& group, const TrainerOptions& options, const WeightAverageOptions& kind = {}) {
  Data data;
  WeightAverage average(kind);
  Trainer trainer(options);
  trainer.add(average);
  return trainer.fit(net, data, group);
}

std::filesystem::path last_snapshot(const TrainerOptions& options) {
  return listed_snapshots(options.snapshot.folder).back().path;
}

void expect_equal_averages(const TrainerOptions& ours, const TrainerOptions& wanted) {
  const auto tensors = extension_tensors(last_snapshot(ours));
  const auto others = extension_tensors(last_snapshot(wanted));
  EXPECT_EQ(tensors.size(), others.size());
  EXPECT_TRUE(others.contains("average.norm.running_mean"));
  for (const auto& [name, tensor] : others) {
    ASSERT_TRUE(tensors.contains(name)) << name;
    EXPECT_TRUE(at::equal(tensors.at(name), tensor)) << name;
  }
}

TEST(SwaStatistics, AreInTheSnapshotWithoutAValidationToo) {
  const TemporaryFolder with_folder;
  const TemporaryFolder without_folder;
  auto group = one_rank();
  const auto with = options_in(with_folder);
  auto without = options_in(without_folder);
  without.data.validate_every = 0;
  Net net;
  Net other;
  fitted(net, group, with);
  fitted(other, group, without);
  expect_equal_averages(without, with);
  EXPECT_EQ(weights_digest(net), weights_digest(other));
}

TEST(SwaStatistics, AreInASnapshotWithinAnEpochToo) {
  const TemporaryFolder folder;
  const TemporaryFolder plain_folder;
  auto group = one_rank();
  auto options = options_in(folder);
  options.snapshot.every_epochs = 0;
  options.snapshot.every_steps = 40;  // The eighth step of the second epoch.
  options.max_steps = 50;
  options.data.validate_every = 0;
  Net net;
  const auto result = fitted(net, group, options);
  Data data;
  Net plain;
  auto without_average = options;
  without_average.snapshot = options_in(plain_folder).snapshot;
  const auto wanted = Trainer(without_average).fit(plain, data, group);
  EXPECT_EQ(result.weights_digest, wanted.weights_digest) << "the pass changes the training";
  EXPECT_EQ(result.state.digest.hex(), wanted.state.digest.hex());
  EXPECT_EQ(result.state.metrics, wanted.state.metrics);
  EXPECT_TRUE(extension_tensors(options.snapshot.folder / "step-0000000040").contains("average.norm.running_mean"));
}

// The signal comes in the first batches of the last validation, or in the statistics pass before it.
void expect_resumed_as_uninterrupted(std::int64_t Net::*signal, std::int64_t at) {
  const TemporaryFolder whole_folder;
  const TemporaryFolder folder;
  auto group = one_rank();
  const auto whole = options_in(whole_folder);
  auto options = options_in(folder);
  Net uninterrupted;
  const auto wanted = fitted(uninterrupted, group, whole);
  Net first;
  first.*signal = at;
  ASSERT_EQ(fitted(first, group, options).stopped_by, "signal");
  Net second;
  options.snapshot.resume_from = last_snapshot(options);
  const auto resumed = fitted(second, group, options);
  EXPECT_EQ(resumed.steps_now, 0);
  EXPECT_EQ(resumed.state.metrics, wanted.state.metrics);
  EXPECT_EQ(resumed.state.numbers, wanted.state.numbers);
  EXPECT_EQ(resumed.weights_digest, wanted.weights_digest);
  expect_equal_averages(options, whole);
}

TEST(SwaStatistics, AStopInValidationCountsNoEpochTwice) {
  expect_resumed_as_uninterrupted(&Net::signal_in_validation, 2 * 66 + 3);
}

TEST(SwaStatistics, AStopInThePassIsHeardAndTheResumedRunTakesThemAnew) {
  expect_resumed_as_uninterrupted(&Net::signal_in_pass, 2 * 33 + 3);
}

TEST(SwaStatistics, ThePassEndsSoonAfterAStop) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Net net;
  net.signal_in_pass = 3;
  const auto options = options_in(folder);
  EXPECT_EQ(fitted(net, group, options).stopped_by, "signal");
  EXPECT_EQ(net.batches_in_pass, 16);
  EXPECT_EQ(net.validated, 0);
  Net restored;
  EXPECT_FALSE(restore_weights(last_snapshot(options), restored)) << "averages without their statistics are used";
  EXPECT_EQ(weights_digest(restored), weights_digest(net));
}

TEST(SwaStatistics, ThePassAutocastsAsTrainingDoes) {
  auto group = one_rank();
  Net net;
  fitted(net, group, {.step = {.precision = Precision::kBf16}});
  EXPECT_EQ(net.batches_in_pass, 33);
  EXPECT_TRUE(net.autocasts_in_pass);
}

std::string refusal_on_resume(const WeightAverageOptions& before, const WeightAverageOptions& after) {
  const TemporaryFolder folder;
  auto group = one_rank();
  auto options = options_in(folder);
  options.max_epochs = 1;
  Net net;
  fitted(net, group, options, before);
  options.max_epochs = 2;
  options.snapshot.resume_from = last_snapshot(options);
  Net again;
  return message_of(ErrorKind::kRecipe, [&] { fitted(again, group, options, after); });
}

TEST(SwaStatistics, AveragesOfAnotherKindAreRefusedOnResume) {
  const auto to_swa = refusal_on_resume({.decay = 0.7}, {});
  EXPECT_HAS(to_swa, "the snapshot holds averages of kind ema, want swa");
  EXPECT_HAS(to_swa, "resume with the same kind of average, or start from scratch with --resume none");
  EXPECT_HAS(refusal_on_resume({}, {.decay = 0.7}), "the snapshot holds averages of kind swa, want ema");
}

}  // namespace
}  // namespace lockstep
