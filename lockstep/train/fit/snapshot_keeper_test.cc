// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/snapshot_keeper.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/pretended_device.h"
#include "tests/support/ranks.h"
#include "tests/support/training_parts.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;
using testing::Pretended;
using testing::SmallNet;
using testing::TemporaryFolder;
using testing::TrainingParts;

// A training with the keeper of its snapshots.
struct Kept {
  Kept(Group& group, TrainerOptions options, MadeUpData data = MadeUpData(4))
      : parts(net, group, std::move(options), std::move(data)),
        keeper(parts.model, parts.data, parts.losses, participants, parts.options.snapshot) {}
  void begin() { state = keeper.begin(parts.options.step.parallel); }
  void make_steps(int count) {
    for (int i = 0; i < count; ++i) {
      parts.step(state, [&](const StepBatches& batches, const StepPlace& place) {
        for (const auto& batch : batches.batches) {
          for (const auto id : batch.ids) state.digest.add(batch.epoch, id);
        }
        parts.step_runner().run(batches, place);
      });
    }
  }

  std::vector<Listener*> listeners;
  std::vector<Extension*> extensions;
  Participants participants{listeners, extensions};
  SmallNet net{{.name = "adam", .lr = 0.05}};
  TrainingParts parts;
  SnapshotKeeper keeper;
  TrainingState state;
};

// Returns one folder for all ranks.
std::filesystem::path shared(Group& group, const TemporaryFolder& folder) {
  return group.broadcast_text(folder.path().string());
}

TrainerOptions resumed_from(TrainerOptions options, std::int64_t step) {
  options.snapshot.resume_from = options.snapshot.folder / ("step-000000000" + std::to_string(step));
  return options;
}

TEST(SnapshotKeeper, BeginsANewTraining) {
  auto group = one_rank();
  Kept ours(group, {});
  ours.begin();
  EXPECT_EQ(ours.state.step, 0);
  EXPECT_EQ(ours.state.seed, 5);
  EXPECT_EQ(ours.state.data_size, 22);
  EXPECT_TRUE(ours.keeper.is_saved(ours.state)) << "there is no folder, so nothing to write";
}

TEST(SnapshotKeeper, WritesEachStepAndEpochOnce) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Kept ours(group, {.snapshot = {.folder = folder.path()}});
  ours.begin();
  ours.make_steps(2);
  EXPECT_FALSE(ours.keeper.is_saved(ours.state));
  ours.keeper.save(ours.state, /*is_best=*/true);
  const auto event = ours.keeper.wait_for_earlier().value();
  EXPECT_EQ(event.step, 2);
  EXPECT_EQ(event.path, (folder.path() / "step-0000000002").string());
  EXPECT_GT(event.bytes, 0);
  EXPECT_TRUE(std::filesystem::equivalent(folder.path() / "best", event.path));
  EXPECT_TRUE(ours.keeper.is_saved(ours.state));
  auto closed = ours.state;
  ++closed.epoch;
  EXPECT_FALSE(ours.keeper.is_saved(closed)) << "the epoch was closed at the same step";
  ours.keeper.forget();
  EXPECT_FALSE(ours.keeper.is_saved(ours.state));
}

TEST(SnapshotKeeper, GoesOnFromASnapshotBitForBit) {
  const TemporaryFolder folder;
  auto group = one_rank();
  const TrainerOptions options{.snapshot = {.folder = folder.path()}};
  Kept whole(group, options);
  whole.begin();
  whole.make_steps(3);
  whole.keeper.save(whole.state, false);
  whole.keeper.settle(whole.state);
  whole.make_steps(2);

  Kept resumed(group, resumed_from(options, 3));
  resumed.begin();
  EXPECT_EQ(resumed.state.step, 3);
  EXPECT_TRUE(resumed.keeper.is_saved(resumed.state));
  resumed.make_steps(2);
  EXPECT_EQ(weights_digest(resumed.net), weights_digest(whole.net));
  const auto wanted = whole.keeper.all_ranks(whole.state);
  const auto found = resumed.keeper.all_ranks(resumed.state);
  EXPECT_EQ(found.loss_sum, wanted.loss_sum);
  EXPECT_EQ(found.loss_samples, wanted.loss_samples);
  EXPECT_EQ(found.logged.at("train_mean").total, wanted.logged.at("train_mean").total);
  EXPECT_EQ(found.digest.hex(), wanted.digest.hex());
}

TEST(SnapshotKeeper, RefusesASnapshotOfOtherDataOrAnotherSeed) {
  const TemporaryFolder folder;
  auto group = one_rank();
  const TrainerOptions options{.snapshot = {.folder = folder.path()}};
  Kept ours(group, options);
  ours.begin();
  ours.make_steps(1);
  ours.keeper.save(ours.state, false);
  ours.keeper.settle(ours.state);
  ours.state.seed = 6;
  ours.make_steps(1);
  ours.keeper.save(ours.state, false);
  ours.keeper.settle(ours.state);
  Kept of_other_data(group, resumed_from(options, 1), MadeUpData(4, 23));
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { of_other_data.begin(); }),
             "was trained on 22 samples, the data set has 23");
  Kept of_other_seed(group, resumed_from(options, 2));
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { of_other_seed.begin(); }), "was trained with seed 6, this run has 5");
}

TEST(SnapshotKeeper, RefusesAnOptimizerThatNoSnapshotHoldsOnlyIfItSaves) {
  struct Strange : SmallNet {
    std::unique_ptr<torch::optim::Optimizer> configure_optimizer() override {
      return std::make_unique<torch::optim::RMSprop>(parameters());
    }
  };
  auto group = one_rank();
  Strange net;
  TrainingParts parts(net, group);
  const std::vector<Listener*> listeners;
  const std::vector<Extension*> extensions;
  const Participants participants(listeners, extensions);
  const auto keeper = [&](const SnapshotOptions& options) {
    SnapshotKeeper(parts.model, parts.data, parts.losses, participants, options);
  };
  keeper({});
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { keeper({.folder = "snapshots"}); }), "use SGD, Adam or AdamW");
}

TEST(SnapshotKeeper, KnowsTheEchoOfARequestOnADevice) {
  const TemporaryFolder folder;
  const Pretended device;
  auto there = device.group();
  auto here = one_rank();
  for (auto* group : {&there, &here}) {
    Kept ours(*group, {.snapshot = {.folder = folder.path()}});
    ours.begin();
    ours.make_steps(1);
    EXPECT_FALSE(ours.keeper.is_echo(ours.state));
    ours.keeper.save(ours.state, false);
    ours.keeper.settle(ours.state);
    ours.make_steps(1);
    EXPECT_EQ(ours.keeper.is_echo(ours.state), group == &there) << "a CPU hears a request in its own step";
    ours.make_steps(1);
    EXPECT_FALSE(ours.keeper.is_echo(ours.state));
  }
}

TEST(SnapshotKeeper, AnInfiniteLossIsNotSaved) {
  const TemporaryFolder folder;
  auto group = one_rank();
  Kept ours(group, {.snapshot = {.folder = folder.path()}});
  ours.begin();
  ours.parts.losses.add(at::full({}, std::numeric_limits<double>::infinity()), 4, 1);
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { ours.keeper.save(ours.state, false); }), "is not finite");
  ours.keeper.stop_on_nonfinite(false);
  ours.keeper.save(ours.state, false);
  EXPECT_EQ(ours.keeper.settle(ours.state).value().step, 0);
}

RANKS_TEST(SnapshotKeeperOfRanks, GivesEachRankItsOwnSumsBack, 2) {
  const TemporaryFolder folder;
  const TrainerOptions options{.snapshot = {.folder = shared(group, folder)}};
  Kept whole(group, options);
  whole.begin();
  whole.make_steps(3);
  const auto own = whole.parts.losses.sums();
  const auto own_metrics = whole.net.metrics().sums();
  whole.keeper.save(whole.state, false);
  whole.keeper.settle(whole.state);
  const auto of_all = whole.keeper.all_ranks(whole.state);
  EXPECT_EQ(of_all.rank_sums.size(), 2);
  EXPECT_EQ(of_all.rank_sums[0].loss.total + of_all.rank_sums[1].loss.total, of_all.loss_sum);
  EXPECT_NE(of_all.rank_sums[0].loss.total, of_all.rank_sums[1].loss.total);

  Kept resumed(group, resumed_from(options, 3));
  resumed.begin();
  EXPECT_EQ(resumed.parts.losses.sums().epoch.total, own.epoch.total);
  EXPECT_EQ(resumed.parts.losses.sums().epoch.samples, own.epoch.samples);
  EXPECT_EQ(resumed.parts.losses.sums().since_logged.total, own.since_logged.total);
  EXPECT_EQ(resumed.parts.losses.sums().since_logged.samples, own.since_logged.samples);
  EXPECT_EQ(resumed.net.metrics().sums().at("train_mean").total, own_metrics.at("train_mean").total);
  EXPECT_EQ(resumed.keeper.all_ranks(resumed.state).digest.hex(), of_all.digest.hex());
}

RANKS_TEST(SnapshotKeeperOfRanks, AnotherNumberOfRanksLeavesTheSumsToRankZero, 2) {
  const TemporaryFolder folder;
  const TrainerOptions options{.snapshot = {.folder = shared(group, folder)}};
  auto one = one_rank();
  if (group.is_main()) {
    Kept alone(one, options);
    alone.begin();
    alone.make_steps(3);
    alone.keeper.save(alone.state, false);
    alone.keeper.settle(alone.state);
  }
  group.barrier();
  Kept resumed(group, resumed_from(options, 3));
  resumed.begin();
  const auto sums = resumed.parts.losses.sums();
  EXPECT_EQ(sums.epoch.samples, group.is_main() ? 12 : 0);
  EXPECT_EQ(sums.since_logged.samples, group.is_main() ? 12 : 0);
  EXPECT_EQ(sums.epoch.total > 0, group.is_main());
  EXPECT_EQ(resumed.net.metrics().sums().contains("train_mean"), group.is_main());
  EXPECT_EQ(resumed.keeper.all_ranks(resumed.state).loss_samples, 12);
}

}  // namespace
}  // namespace lockstep
