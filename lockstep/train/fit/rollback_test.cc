// SPDX-License-Identifier: Apache-2.0
// Tests trainings that return to a snapshot's weights after a gradient that is not finite.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/snapshot/snapshot.h"
#include "lockstep/train/fit/trainer.h"
#include "lockstep/train/weight_average.h"
#include "tests/support/ranks.h"
#include "tests/support/spoilt_training.h"

namespace lockstep {
namespace {

using testing::has;
using testing::message_of;
using testing::one_rank;
using testing::TemporaryFolder;
using Data = testing::SpoiltData;
using Net = testing::SpoiltNet;
using testing::state_of;

TrainerOptions rolling_back(const std::filesystem::path& folder, std::int64_t every_steps, std::int64_t epochs) {
  return {.max_epochs = epochs,
          .snapshot = {.folder = folder, .every_epochs = 0, .every_steps = every_steps},
          .guard = {.on_nonfinite = OnNonfinite::kRollback, .sanity_check = false}};
}

TEST(RolledBackStep, TakesTheNewestSnapshotsStateAndGoesOnWithTheSamplesAfterIt) {
  const TemporaryFolder folder;
  auto group = one_rank();
  constexpr std::int64_t kSpoilt = 17;
  Net net;
  Data data(kSpoilt);
  const auto result = Trainer(rolling_back(folder.path() / "snapshots", 3, 3)).fit(net, data, group);
  EXPECT_EQ(result.found.at("steps_left_out"), "3");

  Net own;
  own.train();
  auto optimizer = own.configure_optimizer();
  auto loader = Data(kSpoilt).train_loader({});
  std::optional<std::filesystem::path> saved;
  std::int64_t step = 0, rollbacks = 0;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    loader->seek(epoch);
    while (const auto batch = loader->next()) {
      ++step;
      if (std::ranges::count(batch->ids, kSpoilt) == 0) {
        optimizer->zero_grad();
        own.training_step(*batch).backward();
        optimizer->step();
      } else if (saved) {
        restore_snapshot(*saved, own, *optimizer);
        ++rollbacks;
      }
      if (step % 3 == 0) {
        saved = write_snapshot(folder.path() / "own", content_of(own, *optimizer, {.step = step})).path;
      }
    }
  }
  ASSERT_GT(rollbacks, 1);
  EXPECT_EQ(result.found.at("rollbacks"), std::to_string(rollbacks));
  EXPECT_EQ(result.state.step, step);
  const auto found = state_of(net);
  const auto wanted = state_of(own);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
}

// Sets a weight to NaN after a step, as a faulty device would.
struct SpoilWeight : Extension {
  explicit SpoilWeight(std::int64_t step) : step_(step) {}
  std::string name() const override { return "spoil"; }
  void start(Module& module) override { module_ = &module; }
  void after_step(const TrainingState& state) override {
    const torch::NoGradGuard no_grad;
    if (state.step == step_) module_->parameters().at(0).fill_(std::nanf(""));
  }

  std::int64_t step_;
  Module* module_ = nullptr;
};

RANKS_TEST(RolledBackStep, TakesAnEarlierSnapshotWhereTheNewestHoldsBadWeights, 2) {
  const TemporaryFolder own;
  const auto folder = group.broadcast_text((own.path() / "snapshots").string());
  Net net;
  auto options = rolling_back(folder, 4, 5);
  options.step.parallel.compression = {.kind = Compression::kPowerSgd, .rank = 1, .start_step = 2};
  Trainer trainer(options);
  SpoilWeight spoil(8);
  WeightAverage average({.decay = 0.9});
  trainer.add(spoil);
  trainer.add(average);
  Data data;
  const auto result = trainer.fit(net, data, group);
  EXPECT_EQ(result.found.at("rollbacks"), "4");
  EXPECT_EQ(result.state.step, 20);
  for (const auto& each : net.parameters()) EXPECT_TRUE(at::isfinite(each).all().item<bool>());
  for (const auto& [name, each] : average.weights()) EXPECT_TRUE(at::isfinite(each).all().item<bool>()) << name;
}

RANKS_TEST(RolledBackStep, EndsTheRunWhereNoSnapshotHelps, 2) {
  const TemporaryFolder own;
  const auto folder = group.broadcast_text((own.path() / "snapshots").string());
  Net net;
  Trainer trainer(rolling_back(folder, 4, 5));
  SpoilWeight spoil(4);
  trainer.add(spoil);
  Data data;
  const auto text = message_of(ErrorKind::kRecipe, [&] { trainer.fit(net, data, group); });
  EXPECT_TRUE(has(text, "went back to the weights of step 4 3 times")) << text;
}

TEST(RolledBackStep, IsOnlyLeftOutBeforeTheFirstSnapshot) {
  const TemporaryFolder folder;
  auto group = one_rank();
  const auto digest = [&](OnNonfinite reaction) {
    Net net;
    Data data(17);
    auto options = rolling_back(folder.path() / std::to_string(static_cast<int>(reaction)), 0, 2);
    options.guard.on_nonfinite = reaction;
    return Trainer(options).fit(net, data, group).weights_digest;
  };
  EXPECT_EQ(digest(OnNonfinite::kRollback), digest(OnNonfinite::kSkip));
}

}  // namespace
}  // namespace lockstep
