// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/graph_plan.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using Way = GraphPlan::Way;

/// Makes steps of a given length, and counts how many ran in each way.
struct Stepper {
  GraphPlan plan;
  double eager_s;
  double replay_s;
  Clock::time_point now{};
  std::int64_t eager = 0, recorded = 0, replayed = 0, waits = 0;

  void step() {
    if (plan.wants_mark()) {
      ++waits;
      plan.mark(now);
    }
    if (const auto times = plan.undecided()) plan.decide(*times);
    const auto way = plan.next();
    if (way == Way::kEager) ++eager;
    if (way == Way::kRecord) ++recorded;
    if (way == Way::kReplay) ++replayed;
    const double seconds = way == Way::kEager ? eager_s : replay_s;
    now += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    plan.done();
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }
};

TEST(GraphPlan, TakesTheReplayWhereItIsFaster) {
  Stepper fast{GraphPlan(Toggle::kAuto, 1000), 1e-3, 1e-4};
  fast.steps(100);
  EXPECT_TRUE(fast.plan.is_decided());
  EXPECT_EQ(fast.eager, 12 + 20);
  EXPECT_EQ(fast.recorded, 1);
  EXPECT_EQ(fast.plan.next(), Way::kReplay);
  EXPECT_EQ(fast.waits, 4) << "the host waits for the device only where a timing begins or ends";
  EXPECT_HAS(fast.plan.reason(), "100 µs a step, 1000 µs one operation at a time");
}

TEST(GraphPlan, GoesBackWhereTheReplayIsSlower) {
  Stepper slow{GraphPlan(Toggle::kAuto, 1000), 1e-4, 1e-3};
  slow.steps(100);
  EXPECT_TRUE(slow.plan.is_decided());
  EXPECT_EQ(slow.plan.next(), Way::kEager);
  EXPECT_EQ(slow.replayed, 2 + 20);
}

TEST(GraphPlan, TakesTheReplayWhereBothWaitForTheLoader) {
  Stepper alike{GraphPlan(Toggle::kAuto, 1000), 1e-3, 1.04e-3};
  alike.steps(100);
  EXPECT_EQ(alike.plan.next(), Way::kReplay);
  Stepper slower{GraphPlan(Toggle::kAuto, 1000), 1e-3, 1.06e-3};
  slower.steps(100);
  EXPECT_EQ(slower.plan.next(), Way::kEager);
}

TEST(GraphPlan, AnInterruptedTimingBeginsAnew) {
  Stepper stepper{GraphPlan(Toggle::kAuto, 1000), 1e-3, 1e-4};
  stepper.steps(20);
  stepper.now += std::chrono::seconds(100);
  stepper.plan.interrupt();
  stepper.steps(80);
  EXPECT_HAS(stepper.plan.reason(), "1000 µs one operation at a time");
  EXPECT_EQ(stepper.eager, 12 + 8 + 20);
}

TEST(GraphPlan, ShortEpochsHaveShortTimings) {
  Stepper stepper{GraphPlan(Toggle::kAuto, 12), 1e-3, 1e-4};
  stepper.steps(40);
  EXPECT_EQ(stepper.eager, 12 + 4);
  EXPECT_TRUE(stepper.plan.is_decided());
}

TEST(GraphPlan, OnRecordsWithoutTimingAndOffNever) {
  Stepper on{GraphPlan(Toggle::kOn, 1000), 1e-4, 1e-3};
  on.steps(20);
  EXPECT_EQ(on.eager, 12);
  EXPECT_EQ(on.plan.next(), Way::kReplay);
  EXPECT_EQ(on.waits, 0);
  Stepper off{GraphPlan(Toggle::kOff, 1000), 1e-3, 1e-4};
  off.steps(100);
  EXPECT_EQ(off.eager, 100);
  EXPECT_HAS(off.plan.reason(), "trainer.graph is off");
}

TEST(GraphPlan, ADroppedRecordingIsTimedAnew) {
  for (const int replays : {1, 7}) {
    Stepper stepper{GraphPlan(Toggle::kAuto, 1000), 1e-3, 1e-4};
    stepper.steps(12 + 20 + 1 + replays);
    stepper.now += std::chrono::seconds(100);
    stepper.plan.interrupt();
    stepper.plan.record_again();
    EXPECT_EQ(stepper.plan.next(), Way::kRecord);
    stepper.steps(100);
    EXPECT_EQ(stepper.recorded, 2);
    EXPECT_HAS(stepper.plan.reason(), "100 µs a step, 1000 µs one operation at a time");
    const auto reason = stepper.plan.reason();
    stepper.plan.record_again();
    EXPECT_TRUE(stepper.plan.is_decided());
    EXPECT_EQ(stepper.plan.next(), Way::kReplay);
    EXPECT_EQ(stepper.plan.reason(), reason);
  }
}

TEST(GraphPlan, ARefusalStaysAndIsNamed) {
  Stepper stepper{GraphPlan(Toggle::kAuto, 1000), 1e-3, 1e-4};
  stepper.steps(32);
  stepper.plan.refuse("the loss asks the host");
  stepper.steps(20);
  EXPECT_EQ(stepper.replayed + stepper.recorded, 0);
  EXPECT_EQ(stepper.plan.reason(), "steps are not replayed: the loss asks the host");
}

TEST(WhyNotRecorded, NamesWhatStandsInTheWay) {
  const GraphFacts good{.device_records = true, .update_is_fused = true};
  EXPECT_EQ(why_not_recorded(good), "");
  EXPECT_HAS(why_not_recorded({}), "the device records no work");
  const auto with = [&](auto change) {
    auto facts = good;
    change(facts);
    return why_not_recorded(facts);
  };
  EXPECT_HAS(with([](auto& facts) { facts.accumulate = 2; }), "trainer.accumulate");
  EXPECT_HAS(with([](auto& facts) { facts.finds_unused = true; }), "find_unused_parameters");
  EXPECT_HAS(with([](auto& facts) { facts.keeps_compression = true; }), "powersgd");
  EXPECT_HAS(with([](auto& facts) { facts.skips_steps = true; }), "guard.on_nonfinite");
  EXPECT_HAS(with([](auto& facts) { facts.update_is_fused = false; }), "optimizer");
  EXPECT_HAS(with([](auto& facts) { facts.moves_momentum = true; }), "momentum");
  EXPECT_HAS(with([](auto& facts) { facts.has_empty_parts = true; }), "without samples");
  EXPECT_HAS(with([](auto& facts) { facts.shares_device = true; }), "share a device");
  EXPECT_HAS(with([](auto& facts) { facts.needs_double_rate = true; }), "fp64");
  EXPECT_EQ(with([](auto& facts) { facts.runtime_reason = "blind"; }), "blind");
  EXPECT_EQ(with([](auto& facts) { facts.module_reason = "its own"; }), "its own");
}

TEST(WhyRecordingsAreBlind, HoldsForHipBeforeItReportsWhatARecordingCannotHold) {
  EXPECT_EQ(why_recordings_are_blind("CUDA", "13.0"), "");
  EXPECT_EQ(why_recordings_are_blind("ROCm", "7.14"), "");
  EXPECT_EQ(why_recordings_are_blind("ROCm", "8.0"), "");
  EXPECT_HAS(why_recordings_are_blind("ROCm", "7.2"), "HIP 7.2 does not say what a recording cannot hold (7.14 does)");
  EXPECT_HAS(why_recordings_are_blind("ROCm", "6.4"), "trainer.graph = \"on\" records all the same");
}

TEST(Toggle, IsFoundByName) {
  EXPECT_EQ(parse_toggle("auto", "trainer.graph"), Toggle::kAuto);
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [] { parse_toggle("maybe", "trainer.graph"); }),
             "trainer.graph is 'maybe', want auto, on or off");
}

}  // namespace
}  // namespace lockstep
