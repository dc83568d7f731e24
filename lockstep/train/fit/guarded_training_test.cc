// SPDX-License-Identifier: Apache-2.0
// Trainings that meet numbers which are not finite, and ranks whose memory changes under them.
#include <gtest/gtest.h>
#include <torch/torch.h>

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

constexpr std::int64_t kNobody = -1;

// The made-up samples; one of them may hold a NaN.
class SpoiltSource : public SampleSource {
 public:
  SpoiltSource(std::shared_ptr<const SampleSource> source, std::int64_t spoilt)
      : source_(std::move(source)), spoilt_(spoilt) {}
  std::int64_t size() const override { return source_->size(); }
  const std::vector<Field>& fields() const override { return source_->fields(); }
  std::string name_of(std::int64_t id) const override { return "row " + std::to_string(id) + " of table.csv"; }
  void read(const SampleKey& key, std::span<std::byte* const> out) const override {
    source_->read(key, out);
    if (key.id == spoilt_) reinterpret_cast<float*>(out[0])[2] = std::nanf("");
  }

 private:
  std::shared_ptr<const SampleSource> source_;
  std::int64_t spoilt_;
};

struct Data : MadeUpData {
  explicit Data(std::int64_t spoilt = kNobody) : MadeUpData(6, 24) {
    source = std::make_shared<SpoiltSource>(source, spoilt);
  }
};

struct Net : Module {
  Net() {
    torch::manual_seed(11);
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    norm = register_module("norm", std::make_shared<BatchNorm>(8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
  }
  at::Tensor training_step(const Batch& batch) override {
    auto hidden = norm->forward(fc1(batch.input()));
    const auto row = std::ranges::find(batch.ids, log_of_zero) - batch.ids.begin();
    if (row < batch.samples()) hidden = hidden + (hidden.select(0, row) * 0).log().clamp(-1e30).sum() * 0;
    const auto row2 = std::ranges::find(batch.ids, infinite_slope) - batch.ids.begin();
    if (row2 < batch.samples()) hidden = hidden + (fc2->weight * 0).sqrt().sum();
    const auto loss = at::cross_entropy_loss(fc2(torch::tanh(hidden)), batch.target());
    log("train_mean", loss);
    seen.push_back(batch.ids);
    return loss;
  }
  std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
    return make_optimizer(parameters(), {.name = "sgd", .lr = 0.1, .momentum = 0.9});
  }

  std::int64_t log_of_zero = kNobody;
  std::int64_t infinite_slope = kNobody;
  std::vector<std::vector<std::int64_t>> seen;
  torch::nn::Linear fc1 = nullptr, fc2 = nullptr;
  std::shared_ptr<BatchNorm> norm;
};

std::string failure_of(Net& net, Group& group, ErrorKind kind, std::int64_t spoilt = kNobody,
                       const TrainerOptions& options = {}) {
  Data data(spoilt);
  return message_of(kind, [&] { Trainer(options).fit(net, data, group); });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<at::Tensor> state_of(const Net& net) {
  std::vector<at::Tensor> out;
  for (const auto& each : net.parameters()) out.push_back(each.detach().clone());
  for (const auto& each : net.buffers()) out.push_back(each.clone());
  return out;
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

// The square root's value is fine at 0, and its slope is not.
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

// A step that is left out has happened to nothing: the run ends as one does whose loop passes over that batch.
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

TrainerOptions rolling_back(const std::filesystem::path& folder, std::int64_t every_steps, std::int64_t epochs) {
  return {.max_epochs = epochs,
          .guard = {.on_nonfinite = OnNonfinite::kRollback, .sanity_check = false},
          .snapshot = {.folder = folder, .every_epochs = 0, .every_steps = every_steps}};
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

// What PowerSGD keeps of a gradient that is not finite must not reach the next one.
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

// Neither guard changes a number of a training that needs none.
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
