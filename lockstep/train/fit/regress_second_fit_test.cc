// SPDX-License-Identifier: Apache-2.0
// The fault: a WeightAverage that was used for two trainings kept the tensors of the first one, and left averaged
// weights in the module.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/format/snapshot/snapshot_folder.h"
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

struct Net : Module {
  Net() {
    torch::manual_seed(11);
    fc = register_module("fc", torch::nn::Linear(4, 3));
    to(at::kDouble);
  }
  at::Tensor training_step(const Batch& batch) override {
    return at::cross_entropy_loss(fc(batch.input().to(at::kDouble)), batch.target());
  }
  void validation_step(const Batch& batch) override {
    if (fails_in_validation) throw std::runtime_error("bad");
    log("val_loss", training_step(batch));
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = lr, .momentum = 0.9});
  }

  double lr = 0.5;
  bool fails_in_validation = false;
  torch::nn::Linear fc = nullptr;
};

void expect_second_fit_without_rate_moves_nothing(const WeightAverageOptions& options) {
  auto group = one_rank();
  Net net;
  MadeUpData data(8);
  WeightAverage average(options);
  Trainer trainer({.max_epochs = 2});
  trainer.add(average);
  trainer.fit(net, data, group);
  const auto trained = net.fc->weight.detach().clone();
  net.lr = 0;
  trainer.fit(net, data, group);
  EXPECT_TRUE(at::equal(net.fc->weight, trained));
}

TEST(SecondFit, LeavesTheLastWeightsInTheModuleAfterEma) {
  expect_second_fit_without_rate_moves_nothing({.decay = 0.7});
}

TEST(SecondFit, LeavesTheLastWeightsInTheModuleAfterSwa) { expect_second_fit_without_rate_moves_nothing({}); }

TEST(SecondFit, GivesTheAveragesOfAnObjectOfItsOwn) {
  auto group = one_rank();
  MadeUpData data(8);
  const auto metrics_of_second = [&](bool reuses) {
    Net net;
    WeightAverage first({.decay = 0.7});
    WeightAverage second({.decay = 0.7});
    Trainer trainer({.max_epochs = 2});
    trainer.add(first);
    trainer.fit(net, data, group);
    if (reuses) return trainer.fit(net, data, group).state.metrics;
    Trainer other({.max_epochs = 2});
    other.add(second);
    return other.fit(net, data, group).state.metrics;
  };
  EXPECT_EQ(metrics_of_second(true), metrics_of_second(false));
}

TEST(SecondFit, OfATrainerWithASnapshotFolderIsRefused) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Net net;
  MadeUpData data(8);
  WeightAverage average({.decay = 0.7});
  Trainer trainer({.max_epochs = 2, .snapshot = {.folder = folder.path() / "snapshots"}});
  trainer.add(average);
  trainer.fit(net, data, group);
  const auto before = listed_snapshots(folder.path() / "snapshots").size();
  const auto text = message_of(ErrorKind::kUsage, [&] { trainer.fit(net, data, group); });
  EXPECT_HAS(text, "holds the snapshots of this Trainer's first fit()");
  EXPECT_HAS(text, "make another Trainer");
  EXPECT_EQ(listed_snapshots(folder.path() / "snapshots").size(), before);
}

TEST(SecondFit, AfterAnExceptionInValidationStartsFromTheLastWeights) {
  auto group = one_rank();
  Net net;
  Net wanted;
  MadeUpData data(8);
  Trainer({.data = {.validate_every = 0}}).fit(wanted, data, group);
  WeightAverage average({.decay = 0.7});
  Trainer trainer({.guard = {.sanity_check = false}});
  trainer.add(average);
  net.fails_in_validation = true;
  EXPECT_THROW(trainer.fit(net, data, group), std::runtime_error);
  EXPECT_TRUE(at::equal(net.fc->weight, wanted.fc->weight));
}

}  // namespace
}  // namespace lockstep
