// SPDX-License-Identifier: Apache-2.0
// The fault: after a failed validation the steps of its epoch were lost, since nothing was saved between the last step
// and the validation.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/optim/optimizer.h"
#include "lockstep/train/weight_average.h"
#include "tests/support/made_up_data.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
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
    if (++validated == fails_at) throw std::runtime_error("no such label");
    const auto loss = training_step(batch);
    if (validated == logs_more_at) log("val_more", loss);
    log("val_loss", loss);
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.5, .momentum = 0.9});
  }

  int validated = 0, fails_at = -1, logs_more_at = -1;
  torch::nn::Linear fc = nullptr;
};

// Validation has 66 batches, an epoch of training 11 steps.
struct Data : testing::MadeUpData {
  Data() : MadeUpData(6, 66) {}
  std::unique_ptr<Loader> validation_loader(Shard shard) override {
    return std::make_unique<Loader>(source, LoaderOptions{.global_batch = 2, .shard = shard, .shuffle = false});
  }
};
constexpr int kBatches = 33;

FitResult fitted(Net& net, Group& group, const TrainerOptions& options) {
  Data data;
  WeightAverage average({});
  Trainer trainer(options);
  trainer.add(average);
  return trainer.fit(net, data, group);
}

std::filesystem::path last_snapshot(const TrainerOptions& options) {
  return listed_snapshots(options.snapshot.folder).back().path;
}

// Returns rank 0's folder on every rank.
TrainerOptions options_in(const TemporaryFolder& folder, const std::string& name, Group& group) {
  const std::filesystem::path shared = group.broadcast_text(folder.path().string());
  return {.max_epochs = 2, .snapshot = {.folder = shared / name, .every_epochs = 0}, .guard = {.sanity_check = false}};
}

// Lets the validation of the second epoch fail as `prepare` sets up. The run that resumes must end like a run in which
// nothing failed.
void expect_saved_and_resumed(Group& group, const std::function<void(Net&)>& prepare, const std::string& message) {
  const TemporaryFolder folder;
  Net whole;
  const auto wanted = fitted(whole, group, options_in(folder, "whole", group));
  auto options = options_in(folder, "failed", group);
  Net first;
  prepare(first);
  std::string text;
  try {
    fitted(first, group, options);
  } catch (const std::exception& error) {
    text = error.what();
  }
  EXPECT_HAS(text, message);
  const auto snapshot = last_snapshot(options);
  EXPECT_EQ(snapshot.filename(), "step-0000000022");
  Net second;
  options.snapshot.resume_from = snapshot;
  const auto resumed = fitted(second, group, options);
  EXPECT_EQ(resumed.steps_now, 0);
  EXPECT_EQ(resumed.state.metrics, wanted.state.metrics);
  EXPECT_EQ(resumed.weights_digest, wanted.weights_digest);
  const auto averages = extension_tensors(last_snapshot(options));
  for (const auto& [name, tensor] : extension_tensors(last_snapshot(options_in(folder, "whole", group)))) {
    EXPECT_TRUE(at::equal(averages.at(name), tensor)) << name;
  }
  group.barrier();
}

RANKS_TEST(FailedValidation, OfOneRankSavesTheOpenEpochFirst, 2) {
  const auto prepare = [&](Net& net) {
    if (group.rank() == 1) net.fails_at = kBatches + 3;
  };
  expect_saved_and_resumed(group, prepare,
                           group.rank() == 1 ? "no such label" : "rank 1: the model failed in validation");
}

RANKS_TEST(FailedValidation, InTheLastBatchSavesTheOpenEpochFirst, 2) {
  const auto prepare = [&](Net& net) {
    if (group.rank() == 0) net.fails_at = 2 * kBatches;
  };
  expect_saved_and_resumed(group, prepare, "no such label");
}

RANKS_TEST(FailedValidation, OfAllRanksSavesTheOpenEpochFirst, 2) {
  expect_saved_and_resumed(
      group, [](Net& net) { net.fails_at = kBatches + 17; }, "no such label");
}

RANKS_TEST(FailedValidation, ByMetricsOfDifferentNamesSavesTheOpenEpochFirst, 2) {
  const auto prepare = [&](Net& net) {
    if (group.rank() == 1) net.logs_more_at = kBatches + 3;
  };
  expect_saved_and_resumed(group, prepare, "log the same names on every rank");
}

}  // namespace
}  // namespace lockstep
