// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/models/batch_norm.h"
#include "lockstep/snapshot/snapshot.h"
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
    norm = register_module("norm", std::make_shared<BatchNorm>(3));
  }
  at::Tensor training_step(const Batch& batch) override {
    return at::cross_entropy_loss(norm->forward(fc(batch.input())), batch.target());
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5});
  }
  torch::nn::Linear fc = nullptr;
  std::shared_ptr<BatchNorm> norm;
};

// There is no validation and no snapshot, so the statistics are computed only at the training's end.
void expect_those_of_its_snapshot(const WeightAverageOptions& options) {
  auto group = one_rank();
  MadeUpData data(8);
  const auto train = [&](Net& net, WeightAverage& average, const SnapshotOptions& snapshot) {
    Trainer trainer({.max_epochs = 2, .data = {.validate_every = 0}, .snapshot = snapshot});
    trainer.add(average);
    trainer.fit(net, data, group);
  };
  const TemporaryFolder folder;
  const auto snapshots = folder.path() / "snapshots";
  Net net;
  Net saved;
  WeightAverage average(options);
  WeightAverage average_of_saved(options);
  train(net, average, {});
  train(saved, average_of_saved, {.folder = snapshots});
  EXPECT_EQ(weights_digest(net), weights_digest(saved));
  EXPECT_EQ(average.count(), options.decay ? 6 : 2);
  Net restored;
  ASSERT_TRUE(restore_weights(listed_snapshots(snapshots).back().path, restored));
  EXPECT_NE(weights_digest(net), weights_digest(restored)) << "the check is blind";
  const auto weights = average.weights();
  EXPECT_TRUE(at::equal(weights.at("fc.weight"), restored.fc->weight));
  EXPECT_EQ(weights.contains("norm.running_mean"), !options.decay);
  average.copy_to(net);
  EXPECT_EQ(weights_digest(net), weights_digest(restored));
  EXPECT_TRUE(at::equal(average.weights().at("fc.weight"), weights.at("fc.weight"))) << "copies share memory";
}

TEST(WeightAverage, CopiesEmasWeightsIntoAModule) { expect_those_of_its_snapshot({.decay = 0.7}); }
TEST(WeightAverage, CopiesSwasWeightsAndStatisticsIntoAModule) { expect_those_of_its_snapshot({}); }

TEST(WeightAverage, HasNoneBeforeATraining) {
  const WeightAverage average({.from_epoch = 3});
  const auto text = message_of(ErrorKind::kUsage, [&] { average.weights(); });
  EXPECT_HAS(text, "no weights have been averaged yet");
  EXPECT_HAS(text, "let it train to epoch 3");
}

TEST(WeightAverage, IsNotCopiedIntoAnotherKindOfModule) {
  auto group = one_rank();
  Net net;
  MadeUpData data(8);
  WeightAverage average({.decay = 0.7});
  Trainer trainer;
  trainer.add(average);
  trainer.fit(net, data, group);
  torch::nn::Linear other(4, 3);
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { average.copy_to(*other); }), "the module's 'fc.bias' is missing");
}

}  // namespace
}  // namespace lockstep
