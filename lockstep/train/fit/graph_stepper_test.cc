// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/graph_stepper.h"

#include <gtest/gtest.h>

#include "lockstep/snapshot/snapshot.h"
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
using testing::TrainingParts;

// 22 samples in batches of 4 make six steps an epoch. The last step has only 2 samples.
struct Recording {
  Recording(Group group_, Toggle toggle)
      : group(std::move(group_)),
        net({.name = "adamw", .lr = 0.05}),
        parts(net, group, {.max_epochs = 8, .step = {.device = {.graph = toggle}}}) {
    parts.connect();
    graph =
        std::make_unique<GraphStepper>(parts.model, parts.step_runner(), parts.forward, parts.losses, parts.options);
  }
  void make_steps(int count) {
    for (int i = 0; i < count; ++i) {
      parts.step(state, [&](const StepBatches& batches, const StepPlace& place) { graph->run(batches, place); });
    }
  }

  Group group;
  SmallNet net;
  TrainingParts parts;
  std::unique_ptr<GraphStepper> graph;
  TrainingState state;
};

constexpr int kWarm = 12;  // Full steps before a recording.

TEST(GraphStepper, MakesStepsOneOperationAtATimeOnACpu) {
  Recording ours(one_rank(), Toggle::kAuto);
  ours.graph->plan(ours.parts.data);
  ours.make_steps(6);
  EXPECT_EQ(ours.net.steps, 6);
  EXPECT_EQ(ours.graph->finding(), std::nullopt);
}

TEST(GraphStepper, RefusesWhatItIsAskedForAndCannotDo) {
  Recording ours(one_rank(), Toggle::kOn);
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { ours.graph->plan(ours.parts.data); }),
             "trainer.graph is on, but the step cannot be recorded: the device records no work");
}

TEST(GraphStepper, SaysWhyADeviceDoesNotReplay) {
  const Pretended device(Pretended::Recorder::kOps);
  Recording off(device.group(), Toggle::kOff);
  off.graph->plan(off.parts.data);
  EXPECT_EQ(off.graph->finding(), "steps are not replayed: trainer.graph is off");
  const Pretended other;
  Recording none(other.group(), Toggle::kAuto);
  none.graph->plan(none.parts.data);
  EXPECT_EQ(none.graph->finding(), "steps are not replayed: the device records no work");
}

TEST(GraphStepper, ReplaysFullStepsBitForBit) {
  const Pretended plain, recording(Pretended::Recorder::kOps);
  Recording wanted(plain.group(), Toggle::kOff), found(recording.group(), Toggle::kOn);
  for (auto* each : {&wanted, &found}) {
    each->graph->plan(each->parts.data);
    each->make_steps(30);
  }
  EXPECT_EQ(weights_digest(found.net), weights_digest(wanted.net));
  EXPECT_EQ(found.parts.losses.epoch_mean(), wanted.parts.losses.epoch_mean());
  EXPECT_EQ(found.net.metrics().over_ranks(found.group), wanted.net.metrics().over_ranks(wanted.group));
  EXPECT_EQ(wanted.net.steps, 30);
  // The host makes the warm-up steps, the recorded step, and the short step of each of five epochs.
  EXPECT_EQ(found.net.steps, kWarm + 1 + 5);
  EXPECT_EQ(found.graph->finding(), "whole steps are replayed: trainer.graph is on");
}

// A replay updates the weights without the host's update, while a save may still read them.
TEST(GraphStepper, WaitsForASaveBeforeEachReplay) {
  const Pretended recording(Pretended::Recorder::kOps);
  Recording ours(recording.group(), Toggle::kOn);
  int waits = 0;
  ours.parts.model.wait_before_update([&] { ++waits; });
  ours.graph->plan(ours.parts.data);
  ours.make_steps(kWarm + 2);  // With the two short steps among them nothing is recorded yet.
  for (int step = 0; step < 16; ++step) {
    const int before = waits;
    ours.make_steps(1);
    EXPECT_GE(waits, before + 1) << step;
  }
  EXPECT_LT(ours.net.steps, kWarm + 18) << "nothing was replayed";
}

TEST(GraphStepper, GoesOnWithoutARecordingThatFails) {
  const Pretended plain, broken(Pretended::Recorder::kBroken);
  Recording wanted(plain.group(), Toggle::kOff), found(broken.group(), Toggle::kAuto);
  for (auto* each : {&wanted, &found}) {
    each->graph->plan(each->parts.data);
    each->make_steps(30);
  }
  EXPECT_EQ(weights_digest(found.net), weights_digest(wanted.net));
  EXPECT_EQ(found.parts.losses.epoch_mean(), wanted.parts.losses.epoch_mean());
  ASSERT_TRUE(found.graph->finding());
  EXPECT_HAS(*found.graph->finding(), "operation not permitted when stream is capturing");
}

TEST(GraphStepper, GoesOnWithoutARecordingThatNcclRefuses) {
  const Pretended plain, refusing(Pretended::Recorder::kPeerless);
  Recording wanted(plain.group(), Toggle::kOff), found(refusing.group(), Toggle::kAuto);
  for (auto* each : {&wanted, &found}) {
    each->graph->plan(each->parts.data);
    each->make_steps(50);
  }
  EXPECT_EQ(weights_digest(found.net), weights_digest(wanted.net));
  ASSERT_TRUE(found.graph->finding());
  EXPECT_HAS(*found.graph->finding(), "steps are not replayed: a peer rank was lost");
}

TEST(GraphStepper, GivesUnusedMemoryBackBeforeItRecords) {
  const Pretended device(Pretended::Recorder::kOps);
  Recording ours(device.group(), Toggle::kOn);
  ours.graph->plan(ours.parts.data);
  ours.make_steps(kWarm);
  EXPECT_EQ(device.times_given_back, 0);
  ours.make_steps(6);
  EXPECT_EQ(device.times_given_back, 1);
}

TEST(GraphStepper, LeavesRecordingOutWhereHipCannotRefuseOne) {
  Pretended device(Pretended::Recorder::kOps);
  device.runtime_now.kind = "ROCm";
  device.runtime_now.runtime = "7.0";
  Recording chosen(device.group(), Toggle::kAuto), insisted(device.group(), Toggle::kOn);
  for (auto* each : {&chosen, &insisted}) {
    each->graph->plan(each->parts.data);
    each->make_steps(30);
  }
  ASSERT_TRUE(chosen.graph->finding());
  EXPECT_HAS(*chosen.graph->finding(), "steps are not replayed: HIP 7.0 does not say");
  EXPECT_EQ(insisted.graph->finding(), "whole steps are replayed: trainer.graph is on");
}

TEST(GraphStepper, ARecordingThatWasAskedForMustNotFail) {
  const Pretended broken(Pretended::Recorder::kBroken);
  Recording ours(broken.group(), Toggle::kOn);
  ours.graph->plan(ours.parts.data);
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { ours.make_steps(kWarm + 6); }),
             "trainer.graph is on, but the step cannot be recorded: operation not permitted");
}

TEST(GraphStepper, DecidesByTimesThatNoInterruptionSpoils) {
  const Pretended device(Pretended::Recorder::kOps);
  Recording interrupted(device.group(), Toggle::kAuto), left_alone(device.group(), Toggle::kAuto);
  for (auto* each : {&interrupted, &left_alone}) each->graph->plan(each->parts.data);
  for (int i = 0; i < 60; ++i) {
    interrupted.graph->interrupt();
    interrupted.make_steps(1);
    left_alone.make_steps(1);
  }
  EXPECT_EQ(interrupted.net.steps, 60) << "a timing that is always interrupted comes to no recording";
  EXPECT_LT(left_alone.net.steps, 60);
  ASSERT_TRUE(left_alone.graph->finding());
  EXPECT_HAS(*left_alone.graph->finding(), "one operation at a time");
}

}  // namespace
}  // namespace lockstep
