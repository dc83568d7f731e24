// SPDX-License-Identifier: Apache-2.0
// Tests trainings in which numbers are not finite, or in which a bit of one rank's memory flips.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/train/fit/trainer.h"
#include "tests/support/ranks.h"
#include "tests/support/spoilt_training.h"

namespace lockstep {
namespace {

using testing::has;
using testing::kNobody;
using testing::message_of;
using testing::one_rank;
using testing::state_of;
using testing::TemporaryFolder;
using Data = testing::SpoiltData;
using Net = testing::SpoiltNet;

std::string failure_of(Net& net, Group& group, ErrorKind kind, std::int64_t spoilt = kNobody,
                       const TrainerOptions& options = {}) {
  Data data(spoilt);
  return message_of(kind, [&] { Trainer(options).fit(net, data, group); });
}

TEST(NonfiniteSample, IsNamedAndNoWeightHasTakenItsGradient) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Net net;
  const auto text =
      failure_of(net, group, ErrorKind::kData, 17,
                 {.max_epochs = 3, .snapshot = {.folder = folder.path() / "snapshots", .every_epochs = 0}});
  EXPECT_TRUE(has(text, "row 17 of table.csv holds numbers that are not finite")) << text;
  EXPECT_TRUE(has(text, "(epoch 0)")) << text;
  for (const auto& each : net.parameters()) EXPECT_TRUE(at::isfinite(each).all().item<bool>());
}

RANKS_TEST(NonfiniteSample, IsNamedWithItsRankOnEveryRank, 3) {
  Net net;
  const auto text = failure_of(net, group, ErrorKind::kData, 5);
  EXPECT_TRUE(has(text, "row 5 of table.csv holds numbers that are not finite")) << text;
  const bool was_mine = std::ranges::any_of(net.seen, [](const auto& ids) { return std::ranges::count(ids, 5) > 0; });
  EXPECT_EQ(has(text, "on rank " + std::to_string(group.rank()) + ","), was_mine) << text;
}

RANKS_TEST(NonfiniteSample, IsNamedAHundredTimesOfAHundred, 2) {
  for (std::int64_t i = 0; i < 100; ++i) {
    const auto spoilt = i * 7 % 24;
    Net net;
    TrainerOptions options;
    options.seed = static_cast<std::uint64_t>(i);
    options.guard.sanity_check = false;
    const auto text = failure_of(net, group, ErrorKind::kData, spoilt, options);
    ASSERT_TRUE(has(text, "row " + std::to_string(spoilt) + " of table.csv holds")) << text;
    const bool was_mine =
        std::ranges::any_of(net.seen, [&](const auto& ids) { return std::ranges::count(ids, spoilt) > 0; });
    ASSERT_EQ(has(text, "on rank " + std::to_string(group.rank()) + ","), was_mine) << text;
  }
}

RANKS_TEST(NonfiniteSample, IsNamedWithSyncBatchNormThatSpreadsItAtOnce, 2) {
  Net net;
  TrainerOptions options;
  options.step.sync_batchnorm = true;
  EXPECT_TRUE(has(failure_of(net, group, ErrorKind::kData, 5, options), "row 5 of table.csv holds"));
}

TEST(NonfiniteSample, IsNamedAmongAccumulatedBatches) {
  auto group = one_rank();
  Net net;
  TrainerOptions options;
  options.step.accumulate = 2;
  EXPECT_TRUE(has(failure_of(net, group, ErrorKind::kData, 9, options), "row 9 of table.csv holds"));
}

TEST(NonfiniteGradient, IsTracedToTheOperationOfTheForwardPass) {
  auto group = one_rank();
  Net net;
  net.log_of_zero = 3;
  const auto text = failure_of(net, group, ErrorKind::kRecipe);
  EXPECT_TRUE(has(text, "aten::log (forward, weight norm.")) << text;
  EXPECT_TRUE(has(text, "gave an infinite number")) << text;
}

// At 0 the square root is finite, but its derivative is not.
TEST(NonfiniteGradient, IsTracedToTheOperationOfTheBackwardPass) {
  auto group = one_rank();
  Net net;
  net.infinite_slope = 3;
  const auto text = failure_of(net, group, ErrorKind::kRecipe);
  EXPECT_TRUE(has(text, "(backward")) << text;
  EXPECT_TRUE(has(text, "gave NaN")) << text;
}

TEST(NonfiniteGradient, OfAWeightThatWasNotFiniteBeforeNamesTheWeight) {
  auto group = one_rank();
  Net net;
  {
    const torch::NoGradGuard no_grad;
    net.fc2->weight[1][1] = std::nanf("");
  }
  EXPECT_TRUE(has(failure_of(net, group, ErrorKind::kRecipe), "the weight fc2.weight was not finite before the step"));
}

// A step that is left out must change nothing. The run must end with the same weights as a run that skips this batch.
TEST(SkippedStep, ChangesNeitherWeightsNorStatisticsNorLosses) {
  auto group = one_rank();
  constexpr std::int64_t kSpoilt = 17;
  Net net;
  Data data(kSpoilt);
  const auto result = Trainer({.max_epochs = 2, .guard = {.on_nonfinite = OnNonfinite::kSkip, .sanity_check = false}})
                          .fit(net, data, group);
  EXPECT_EQ(result.found.at("steps_left_out"), "2");
  EXPECT_EQ(result.state.step, 8);

  Net own;
  own.train();
  auto optimizer = own.configure_optimizer();
  auto loader = Data(kSpoilt).train_loader({});
  double sum = 0;
  std::int64_t samples = 0;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader->seek(epoch);
    sum = 0;
    samples = 0;
    while (const auto batch = loader->next()) {
      if (std::ranges::count(batch->ids, kSpoilt) > 0) continue;
      optimizer->zero_grad();
      const auto loss = own.training_step(*batch);
      loss.backward();
      optimizer->step();
      sum += loss.item<double>() * static_cast<double>(batch->samples());
      samples += batch->samples();
    }
  }
  const auto found = state_of(net);
  const auto wanted = state_of(own);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
  EXPECT_EQ(result.state.metrics.at("train_loss"), sum / static_cast<double>(samples));
  EXPECT_EQ(result.state.metrics.at("train_mean"), sum / static_cast<double>(samples));
}

RANKS_TEST(SkippedStep, IsTheSameOneOnEveryRank, 2) {
  Net net;
  Data data(5);
  const auto result = Trainer({.max_epochs = 2, .guard = {.on_nonfinite = OnNonfinite::kSkip, .sanity_check = false}})
                          .fit(net, data, group);
  EXPECT_EQ(result.found.at("steps_left_out"), "2");
  for (const auto& each : net.parameters()) EXPECT_TRUE(at::isfinite(each).all().item<bool>());
}

TEST(SkippedStep, TooManyInARowEndTheRun) {
  auto group = one_rank();
  Net net;
  {
    const torch::NoGradGuard no_grad;
    net.fc2->weight[1][1] = std::nanf("");
  }
  const auto text = failure_of(net, group, ErrorKind::kRecipe, kNobody,
                               {.max_epochs = 9, .guard = {.on_nonfinite = OnNonfinite::kSkip}});
  EXPECT_TRUE(has(text, "as were those of the 10 steps before it")) << text;
}

// PowerSGD keeps an error from step to step. A gradient that is not finite must not reach the next step through this
// error.
RANKS_TEST(SkippedStep, LeavesNothingInWhatCompressionKeeps, 2) {
  Net net;
  Data data(5);
  TrainerOptions options{.max_epochs = 5, .guard = {.on_nonfinite = OnNonfinite::kSkip, .sanity_check = false}};
  options.step.parallel.compression = {.kind = Compression::kPowerSgd, .rank = 1, .start_step = 2};
  const auto result = Trainer(options).fit(net, data, group);
  EXPECT_EQ(result.found.at("steps_left_out"), "5");
  for (const auto& each : net.parameters()) EXPECT_TRUE(at::isfinite(each).all().item<bool>());
}

// Flips a bit of one rank's weight after a step.
struct Flip : Extension {
  std::string name() const override { return "flip"; }
  void start(Module& module) override { module_ = &module; }
  void after_step(const TrainingState& state) override {
    if (state.step != 3 || rank != 1) return;
    auto* bytes = static_cast<std::uint8_t*>(module_->parameters().at(0).mutable_data_ptr());
    bytes[5] ^= 1U;
  }

  int rank = 0;
  Module* module_ = nullptr;
};

RANKS_TEST(FlippedBit, EndsTheRunBeforeAnyOfItIsSaved, 3) {
  const TemporaryFolder own;
  const auto folder = group.broadcast_text((own.path() / "snapshots").string());
  Net net;
  Flip flip;
  flip.rank = group.rank();
  Trainer trainer({.max_epochs = 9, .snapshot = {.folder = folder, .every_epochs = 0, .every_steps = 2}});
  trainer.add(flip);
  Data data;
  const auto text = message_of(ErrorKind::kEnvironment, [&] { trainer.fit(net, data, group); });
  EXPECT_TRUE(has(text, "rank 1 (")) << text;
  EXPECT_TRUE(has(text, "after step 4: the first tensor that differs is fc1.weight; all held the same after step 2"))
      << text;
  if (!group.is_main()) return;
  EXPECT_TRUE(std::filesystem::exists(folder + "/step-0000000002"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/step-0000000004"));
}

RANKS_TEST(FlippedBit, IsFoundWithinTheStepsOfTheSetting, 3) {
  Net net;
  Flip flip;
  flip.rank = group.rank();
  Trainer trainer({.max_epochs = 9, .guard = {.compare = {.every_steps = 5}}});
  trainer.add(flip);
  Data data;
  EXPECT_TRUE(has(message_of(ErrorKind::kEnvironment, [&] { trainer.fit(net, data, group); }), "after step 5:"));
}

RANKS_TEST(FlippedBit, IsHealedByTheMajority, 3) {
  Net net;
  Flip flip;
  flip.rank = group.rank();
  Trainer trainer({.max_epochs = 2, .guard = {.compare = {.every_steps = 5, .on_difference = OnDifference::kHeal}}});
  trainer.add(flip);
  Data data;
  EXPECT_EQ(trainer.fit(net, data, group).state.step, 8);
}

// In a training without faults, neither guard changes any number.
RANKS_TEST(Guards, ChangeNothing, 2) {
  const auto digest = [&](const GuardOptions& guard) {
    Net net;
    Data data;
    return Trainer({.max_epochs = 3, .guard = guard}).fit(net, data, group).weights_digest;
  };
  const auto wanted = digest({.on_nonfinite = OnNonfinite::kIgnore, .compare = {.every_steps = 0}});
  EXPECT_EQ(digest({}), wanted);
  EXPECT_EQ(digest({.on_nonfinite = OnNonfinite::kSkip, .compare = {.every_steps = 1}}), wanted);
}

}  // namespace
}  // namespace lockstep
