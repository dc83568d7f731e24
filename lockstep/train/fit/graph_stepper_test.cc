// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/graph_stepper.h"

#include <gtest/gtest.h>

#include "lockstep/snapshot/snapshot.h"
#include "lockstep/train/fit/trainer.h"
#include "tests/support/pretended_device.h"
#include "tests/support/ranks.h"
#include "tests/support/training_parts.h"
#include "tests/support/watched_device.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::one_rank;
using testing::Pretended;
using testing::RecordedOps;
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

TEST(GraphStepper, GoesOnWithoutARecordingThatTorchScriptCouldNotMake) {
  const Pretended plain, scripted(Pretended::Recorder::kScripted);
  Recording wanted(plain.group(), Toggle::kOff), found(scripted.group(), Toggle::kAuto);
  for (auto* each : {&wanted, &found}) {
    each->graph->plan(each->parts.data);
    each->make_steps(30);
  }
  EXPECT_EQ(weights_digest(found.net), weights_digest(wanted.net));
  EXPECT_EQ(found.graph->finding(),
            "steps are not replayed: CUDA error: operation not permitted when stream is capturing");
}

TEST(GraphStepper, GoesOnWhereMemoryRunsOutBeforeTheRecording) {
  struct Full : Pretended {
    Full() : Pretended(Recorder::kOps) {}
    void give_back_memory(int) const override {
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "CUDA out of memory. Tried to allocate 2.00 MiB.");
    }
  };
  const Pretended plain;
  const Full full;
  Recording wanted(plain.group(), Toggle::kOff), found(full.group(), Toggle::kAuto);
  for (auto* each : {&wanted, &found}) {
    each->graph->plan(each->parts.data);
    each->make_steps(30);
  }
  EXPECT_EQ(weights_digest(found.net), weights_digest(wanted.net));
  ASSERT_TRUE(found.graph->finding());
  EXPECT_HAS(*found.graph->finding(), "steps are not replayed: CUDA out of memory.");
}

// A device of one of several ranks, whose recordings run nothing, as a real device's.
struct RanksDevice : Pretended {
  explicit RanksDevice(bool fails_ = false) : Pretended(Recorder::kOps), fails(fails_) {}
  const CollectiveMaker* collectives() const override { return &told; }
  Group joined() const { return testing::on_device(join(), *this); }

  struct FailsAtTheEnd : Broken {
    void capture(const std::function<void()>& work) override {
      RecordedOps(/*undoes=*/true).capture(work);
      throw std::runtime_error("no memory is left for the graph");
    }
  };
  std::unique_ptr<StepGraph> step_graph(int) const override {
    if (fails) return std::make_unique<FailsAtTheEnd>();
    return std::make_unique<RecordedOps>(/*undoes=*/true);
  }

  bool fails;
  testing::ToldCollectives told;
};

TEST(GraphStepper, AllRanksGoOnWithoutARecordingThatOneOfThemCouldNotMake) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 2});
  testing::begin_rank();
  const bool fails = Environment::of_process().get("RANK") == "1";
  const RanksDevice plain, recording(fails);
  Recording wanted(plain.joined(), Toggle::kOff), found(recording.joined(), Toggle::kAuto);
  for (auto* each : {&wanted, &found}) {
    each->graph->plan(each->parts.data);
    each->make_steps(40);
  }
  EXPECT_EQ(weights_digest(found.net), weights_digest(wanted.net));
  EXPECT_EQ(found.parts.losses.epoch_mean(), wanted.parts.losses.epoch_mean());
  EXPECT_EQ(found.net.metrics().over_ranks(found.group), wanted.net.metrics().over_ranks(wanted.group));
  EXPECT_EQ(found.net.steps, 41) << "the step that was recorded is made once more";
  const std::string reason = fails ? "no memory is left for the graph" : "another rank could not record it";
  EXPECT_EQ(found.graph->finding(), "steps are not replayed: " + reason);
}

// A device with 1000 bytes. A step needs 400 of them, and a recording keeps as many for itself.
struct SmallDevice : Pretended {
  explicit SmallDevice(std::int64_t others) : Pretended(Recorder::kOps) {
    memory_now = {.total = 1000, .free = 1000 - others, .available = 1000 - others};
  }
  DeviceMemory memory(int) const override {
    auto now = memory_now;
    now.free -= kept;  // `available` still counts what a recording keeps, as LibTorch's allocator does.
    return now;
  }

  struct Keeping : StepGraph {
    explicit Keeping(std::int64_t& kept_) : kept(kept_) {}
    ~Keeping() override { kept = 0; }
    void capture(const std::function<void()>& work) override {
      ops.capture(work);
      kept = 400;
    }
    void replay() override { ops.replay(); }
    RecordedOps ops;
    std::int64_t& kept;
  };
  std::unique_ptr<StepGraph> step_graph(int) const override { return std::make_unique<Keeping>(kept); }
  mutable std::int64_t kept = 0;
};

struct HungryNet : SmallNet {
  explicit HungryNet(const SmallDevice& device_) : SmallNet({.name = "adamw", .lr = 0.05}), device(device_) {}
  at::Tensor training_step(const Batch& batch) override {
    if (device.memory(0).free < 400) {
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "CUDA out of memory. Tried to allocate 400 bytes.");
    }
    return SmallNet::training_step(batch);
  }
  const SmallDevice& device;
};

TEST(GraphStepper, DropsItsRecordingWhereAShortStepHasNoMemoryBesideIt) {
  for (const std::int64_t others : {200, 201}) {
    const Pretended plain;
    const SmallDevice small(others);
    Recording wanted(plain.group(), Toggle::kOff);
    wanted.make_steps(30);
    auto group = small.group();
    HungryNet net(small);
    TrainingParts parts(net, group, {.max_epochs = 8, .step = {.device = {.graph = Toggle::kOn}}});
    parts.connect();
    GraphStepper graph(parts.model, parts.step_runner(), parts.forward, parts.losses, parts.options);
    graph.plan(parts.data);
    TrainingState state;
    for (int i = 0; i < 30; ++i) {
      parts.step(state, [&](const StepBatches& batches, const StepPlace& place) { graph.run(batches, place); });
    }
    EXPECT_EQ(weights_digest(net), weights_digest(wanted.net));
    ASSERT_TRUE(graph.finding());
    if (others == 200) {
      EXPECT_EQ(graph.finding(), "whole steps are replayed: trainer.graph is on");
    } else {
      EXPECT_HAS(*graph.finding(),
                 "steps are not replayed: a recording holds memory that the epoch's short last batch");
      EXPECT_EQ(small.kept, 0);
    }
  }
}

// The data of a validation are as many as a step's, or twice as many.
TEST(GraphStepper, DropsItsRecordingWhereAPassHasNoMemoryBesideItAndRecordsAgain) {
  const Pretended plain;
  Recording wanted(plain.group(), Toggle::kOff);
  wanted.make_steps(30);
  for (const auto& [others, batch, drops] : {std::tuple(200, 4, false), {200, 8, true}, {0, 6, false}, {0, 7, true}}) {
    const SmallDevice small(others);
    Recording found(small.group(), Toggle::kOn);
    found.graph->plan(found.parts.data);
    found.graph->make_room_for_pass(batch);
    found.make_steps(18);
    ASSERT_EQ(small.kept, 400);
    found.graph->make_room_for_pass(batch);
    EXPECT_EQ(small.kept, drops ? 0 : 400) << others << " bytes, " << batch << " samples";
    found.make_steps(1);
    EXPECT_EQ(small.kept, 400);
    found.make_steps(11);
    EXPECT_EQ(weights_digest(found.net), weights_digest(wanted.net));
    EXPECT_EQ(found.parts.losses.epoch_mean(), wanted.parts.losses.epoch_mean());
    EXPECT_EQ(found.graph->finding(), "whole steps are replayed: trainer.graph is on");
    // As a training without a pass makes, and the step that is recorded again.
    EXPECT_EQ(found.net.steps, kWarm + 1 + 5 + (drops ? 1 : 0));
  }
}

// A validation has batches of five, a step has four samples.
TEST(GraphStepper, AValidationHasTheMemoryOfItsBatchesBesideTheRecording) {
  struct Net : SmallNet {
    explicit Net(const SmallDevice& device_) : SmallNet({.name = "adamw", .lr = 0.05}), device(device_) {}
    void validation_step(const Batch& batch) override {
      left.push_back(device.memory(0).free);
      log("loss", at::cross_entropy_loss(fc2(torch::tanh(fc1(batch.input()))), batch.target()));
    }
    const SmallDevice& device;
    std::vector<std::int64_t> left{};
  };
  std::map<std::int64_t, std::string> weights;
  for (const std::int64_t others : {100, 101}) {
    const SmallDevice small(others);
    auto group = small.group();
    MadeUpData data(4, /*samples=*/20);
    Net net(small);
    const auto result = Trainer({.max_epochs = 6, .step = {.device = {.graph = Toggle::kOn}}}).fit(net, data, group);
    EXPECT_EQ(net.left.front(), 1000 - others) << "nothing is recorded in the first epochs";
    EXPECT_EQ(net.left.back(), others == 100 ? 500 : 899);
    EXPECT_EQ(net.steps, others == 100 ? kWarm + 1 : kWarm + 1 + 3) << "it records again after each validation";
    EXPECT_EQ(result.found.at("graph"), "whole steps are replayed: trainer.graph is on");
    weights[others] = result.weights_digest;
  }
  EXPECT_EQ(weights[100], weights[101]);
}

TEST(GraphStepper, AllRanksDropTheirRecordingsWhereOneHasNoMemoryBesideIt) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 2});
  testing::begin_rank();
  const bool is_small = Environment::of_process().get("RANK") == "1";
  struct Device : SmallDevice {
    using SmallDevice::SmallDevice;
    const CollectiveMaker* collectives() const override { return &told; }
    testing::ToldCollectives told;
  };
  const RanksDevice plain;
  Recording wanted(plain.joined(), Toggle::kOff);
  wanted.make_steps(40);
  for (const bool is_of_pass : {true, false}) {
    const Device small(is_small ? 201 : 0);
    Recording found(testing::on_device(join(), small), Toggle::kOn);
    found.graph->plan(found.parts.data);
    found.make_steps(16);  // No short step has come beside the recording.
    ASSERT_EQ(small.kept, 400);
    if (is_of_pass) found.graph->make_room_for_pass(4);
    if (!is_of_pass) found.make_steps(2);
    EXPECT_EQ(small.kept, 0);
    if (is_of_pass) found.make_steps(1);
    EXPECT_EQ(small.kept, is_of_pass ? 400 : 0);
    found.make_steps(is_of_pass ? 23 : 22);
    EXPECT_EQ(weights_digest(found.net), weights_digest(wanted.net));
    EXPECT_EQ(found.parts.losses.epoch_mean(), wanted.parts.losses.epoch_mean());
  }
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
