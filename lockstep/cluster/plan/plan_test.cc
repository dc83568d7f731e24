// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"
#include "lockstep/cluster/plan/machine.h"
#include "lockstep/cluster/plan/text.h"
#include "lockstep/cluster/profile/library.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

constexpr double kMib = 1 << 20;

TrainingFacts some_facts() {
  TrainingFacts facts;
  facts.model = "resnet18";
  facts.precision = "bf16";
  facts.device = "a processor";
  facts.is_timed = true;
  facts.cores = 8;
  facts.parameters = 25 << 20;
  facts.weight_bytes = facts.gradient_bytes = 100 * kMib;
  facts.optimizer_bytes = 200 * kMib;
  facts.buffer_bytes = kMib;
  for (int i = 0; i < 100; ++i) facts.gradients.push_back({.bytes = kMib, .ready = (100 - i) / 100.0});
  facts.train_samples = 100000;
  facts.validation_samples = 1000;
  facts.batches = {{.samples = 16,
                    .forward_s = 0.02,
                    .backward_s = 0.04,
                    .update_s = 0.005,
                    .spread = 0,
                    .flops = 1.6e12,
                    .activation_bytes = 160 * kMib},
                   {.samples = 64,
                    .forward_s = 0.07,
                    .backward_s = 0.14,
                    .update_s = 0.005,
                    .spread = 0,
                    .flops = 6.4e12,
                    .activation_bytes = 640 * kMib}};
  return facts;
}

Profile profile_named(const std::string& name) { return ProfileLibrary(Environment{}).named(name); }

PlanQuestion question_on(const std::string& cluster, std::vector<int> nodes, bool is_here = false) {
  PlanQuestion question;
  question.facts = some_facts();
  question.schedule = {.batch = 32, .epochs = 2};
  const auto profile = profile_named(cluster);
  const int ranks = static_cast<int>(std::max<std::int64_t>(1, profile.devices.count));
  question.machine = plan_machine(profile, question.facts, {.ranks = ranks, .is_here = is_here});
  question.nodes = std::move(nodes);
  return question;
}

TEST(PlanBuckets, FollowTheOrderInWhichGradientsComeWithASmallFirstOne) {
  const auto buckets = plan_buckets(some_facts().gradients, 25 * kMib);
  ASSERT_EQ(buckets.size(), 5U);
  EXPECT_EQ(buckets[0].bytes, kMib);
  EXPECT_EQ(buckets[0].ready, 0.01);
  EXPECT_EQ(buckets[1].bytes, 25 * kMib);
  EXPECT_EQ(buckets[1].ready, 0.26);
  EXPECT_EQ(buckets[4].bytes, 24 * kMib);
  EXPECT_EQ(buckets[4].ready, 1);
}

TEST(BatchCosts, LieOnALineBetweenThoseMeasured) {
  const auto facts = some_facts();
  EXPECT_DOUBLE_EQ(cost_at(facts, 40).forward_s, 0.045);
  EXPECT_DOUBLE_EQ(cost_at(facts, 64).backward_s, 0.14);
  EXPECT_NEAR(cost_at(facts, 112).forward_s, 0.12, 1e-12);
  EXPECT_NEAR(cost_at(facts, 8).activation_bytes, 80 * kMib, 1);
}

TEST(AllReduces, TakeTheTimeOfTheirBytesOverTheBus) {
  const PlanLinks links{.node_bus = 200e9, .network_bus = 100e9};
  EXPECT_EQ(all_reduce_seconds(1e9, {1, 1}, links), 0);
  EXPECT_NEAR(all_reduce_seconds(4e9, {1, 8}, links), 4e9 * 2 * 7 / 8 / 200e9, 1e-3);
  EXPECT_NEAR(all_reduce_seconds(4e9, {2, 8}, links), 4e9 * 2 * 15 / 16 / 100e9, 1e-3);
  EXPECT_EQ(all_reduce_seconds(1e9, {2, 1}, PlanLinks{.node_bus = 200e9}), 0) << "an unknown network";
}

TEST(AllReduces, OfFewBytesTakeTheirLatencyWhichGrowsWithTheLogarithmOfNodes) {
  const PlanLinks links{.node_bus = 200e9, .network_bus = 100e9};
  const double two = all_reduce_seconds(8, {2, 8}, links);
  const double many = all_reduce_seconds(8, {1024, 8}, links);
  EXPECT_GT(two, 5e-6);
  EXPECT_LT(many, 200e-6);
  EXPECT_GT(many, 4 * two);
}

TEST(AllReduces, WithinANodeAreThoseMeasured) {
  const PlanLinks links{.measured = {{.bytes = 1e3, .seconds = 1e-4}, {.bytes = 1e6, .seconds = 1e-3}},
                        .measured_ranks = 2};
  EXPECT_DOUBLE_EQ(all_reduce_seconds(10, {1, 2}, links), 1e-4);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(1e6, {1, 2}, links), 1e-3);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(4e6, {1, 2}, links), 4e-3);
}

StepQuestion step_of(std::vector<PlanBucket> buckets) {
  return {.work = {.forward_s = 1, .backward_s = 2, .update_s = 0.5},
          .buckets = std::move(buckets),
          .at = {1, 2},
          .links = {.measured = {{.bytes = 1, .seconds = 1}}, .measured_ranks = 2}};
}

TEST(SimulatedSteps, HideAllReducesBehindTheBackwardPassInOrder) {
  // The buckets are ready at 2 s and 3 s, and each takes one second to send. The second one begins when the backward
  // pass has ended.
  const auto step = simulated_step(step_of({{.bytes = 1, .ready = 0.5}, {.bytes = 1, .ready = 1}}));
  EXPECT_DOUBLE_EQ(step.seconds, 1 + 2 + 1 + 0.5);
  EXPECT_DOUBLE_EQ(step.exposed_s, 1);
  EXPECT_DOUBLE_EQ(step.reduce_s, 2);
  // Both buckets wait for the network. They are ready at 1.2 s and 1.4 s.
  EXPECT_NEAR(simulated_step(step_of({{.bytes = 1, .ready = 0.1}, {.bytes = 1, .ready = 0.2}})).exposed_s, 0.2, 1e-9);
}

TEST(SimulatedSteps, AddAllReducesWhereNoCoreIsFreeForThem) {
  auto question = step_of({{.bytes = 1, .ready = 0.1}});
  question.overlaps = false;
  EXPECT_DOUBLE_EQ(simulated_step(question).seconds, 4.5);
}

TEST(SimulatedSteps, TakeTheAveragingThatWasTimedInsteadOfBuckets) {
  auto question = step_of({{.bytes = 1, .ready = 0.1}, {.bytes = 1, .ready = 1}});
  question.averaging_s = 0.75;
  const auto step = simulated_step(question);
  EXPECT_DOUBLE_EQ(step.seconds, 1 + 2 + 0.75 + 0.5);
  EXPECT_DOUBLE_EQ(step.exposed_s, 0.75);
  EXPECT_DOUBLE_EQ(step.reduce_s, 0.75);
}

TEST(SimulatedSteps, BeginWithTheirDataWhereNothingReadsAhead) {
  auto question = step_of({});
  question.work.read_s = 0.25;
  EXPECT_DOUBLE_EQ(simulated_step(question).seconds, 3.5);
  question.reads_ahead = false;
  const auto step = simulated_step(question);
  EXPECT_DOUBLE_EQ(step.seconds, 3.75);
  EXPECT_DOUBLE_EQ(step.data_s, 0.25);
}

TEST(SimulatedSteps, WaitForTheSlowestOfManyRanks) {
  auto question = step_of({});
  question.spread.devices = 0.02;
  double before = 0;
  for (const int ranks : {2, 100, 10000}) {
    question.at = {ranks, 1};
    const double waiting = simulated_step(question).waiting_s / question.work.compute_s();
    EXPECT_GT(waiting, before);
    before = waiting;
  }
  // The mean of the largest of 10 000 normal draws is 3.85 standard deviations.
  EXPECT_NEAR(before, 3.85 * 0.02, 0.004);
}

TEST(Plans, ComeFromPublishedRatesWhereTheDeviceHasOne) {
  const auto question = question_on("juwels-booster", {1, 2, 256});
  EXPECT_EQ(question.machine.basis, PlanBasis::kPublished);
  const auto points = predicted(question);
  EXPECT_NEAR(points[0].step.compute_s, 3.2e12 / 60e12, 1e-9);
  EXPECT_EQ(points[0].steps_per_epoch, (100000 + 127) / 128);
  EXPECT_GT(points[1].speed_up, 1.8);
  EXPECT_LT(points[1].efficiency, 1);
  EXPECT_LE(*points[2].error, 0.25);
  EXPECT_GT(points[2].step.waiting_s, points[0].step.waiting_s);
  EXPECT_NEAR(points[0].memory.total() / kMib, 100 + 100 + 200 + 1 + 320, 1e-6);
}

TEST(Plans, GoOnFromAMeasuredStepWhereNothingWasTimedHere) {
  auto facts = some_facts();
  for (auto& batch : facts.batches) batch.forward_s = batch.backward_s = batch.update_s = 0;
  auto question = question_on("lumi-g", {1, 2});
  question.facts = facts;
  const PlanTarget target{
      .ranks = 8, .measured = {MeasuredStep{.at = {1, 8}, .seconds = 0.5, .batch = 32}}, .measured_in = "run"};
  question.machine = plan_machine(profile_named("lumi-g"), facts, target);
  const auto points = predicted(question);
  EXPECT_NEAR(points[0].step.seconds, 0.5, 1e-6);
  EXPECT_GT(points[1].step.seconds, 0.5);
  EXPECT_LT(points[1].step.seconds, 0.6);
  EXPECT_LE(*points[1].error, 0.25);
}

TEST(Plans, OfThisMachineTakeTheAveragingOfItsOwnRanksOnly) {
  auto facts = some_facts();
  facts.ranks = 2;
  facts.reduces = {{.bytes = 1, .seconds = 1}};
  facts.batches[0].averaging_s = 0.01;
  facts.batches[1].averaging_s = 0.04;
  PlanQuestion question{.facts = facts, .schedule = {.batch = 32, .epochs = 1}};
  const auto generic = profile_named("generic");
  question.machine = plan_machine(generic, facts, {.ranks = 2, .is_here = true});
  question.nodes = {1, 2};
  const auto points = predicted(question);
  EXPECT_DOUBLE_EQ(points[0].step.exposed_s, 0.02);
  EXPECT_NE(points[1].step.exposed_s, 0.02) << "two nodes average over a network";

  question.machine = plan_machine(generic, facts, {.ranks = 4, .is_here = true});
  EXPECT_NE(predicted(question)[0].step.exposed_s, 0.02) << "other ranks than were timed";
}

/// A network of 600 kernels whose arithmetic takes a second for a million samples.
TrainingFacts facts_with_kernels() {
  auto facts = some_facts();
  for (auto& batch : facts.batches) {
    batch.forward_s = batch.backward_s = batch.update_s = 0;
    batch.forward = {.all = 200, .products = 50};
    batch.backward = {.all = 400, .products = 100};
  }
  return facts;
}

PlanPoint point_with(const TrainingFacts& facts, LaunchWay way, bool is_compiled, std::int64_t batch,
                     std::vector<MeasuredStep> measured = {}) {
  PlanQuestion question{.facts = facts, .schedule = {.batch = batch, .epochs = 1}};
  const PlanTarget target{.ranks = 1, .measured = std::move(measured), .launch = way, .is_compiled = is_compiled};
  question.machine = plan_machine(profile_named("juwels-booster"), facts, target);
  question.nodes = {1};
  return predicted(question).front();
}

TEST(Launches, RuleSmallBatchesAndLessSoInAGraphOrCompiled) {
  const auto facts = facts_with_kernels();
  // 100 tensors are updated by three kernels. Arithmetic takes 1e11 operations a sample at 60 TFLOPS.
  const double arithmetic = 1e11 / 60e12;
  const auto eager = point_with(facts, LaunchWay::kEager, false, 1);
  EXPECT_NEAR(eager.step.compute_s, 603 * 10e-6, 1e-9);
  EXPECT_NEAR(eager.launch_s, 603 * 10e-6 - arithmetic, 1e-9);
  EXPECT_EQ(eager.limit, "launches");
  EXPECT_NEAR(point_with(facts, LaunchWay::kGraph, false, 1).step.compute_s, arithmetic + 603 * 3.4e-6, 1e-9);
  // The pass has twice as many products, that is 300 kernels. The update is the same.
  EXPECT_NEAR(point_with(facts, LaunchWay::kGraph, true, 1).step.compute_s, arithmetic + 303 * 3.4e-6, 1e-9);
  const auto large = point_with(facts, LaunchWay::kEager, false, 1000);
  EXPECT_NEAR(large.step.compute_s, 1000 * arithmetic + 600 * 3.4e-6 + 3 * 10e-6, 1e-9);
  EXPECT_EQ(large.limit, "compute");
}

TEST(Launches, DoNotCountWhereStepsAreTimed) {
  auto question = question_on("generic", {1}, /*is_here=*/true);
  for (auto& batch : question.facts.batches) batch.forward = batch.backward = {.all = 1e6};
  EXPECT_EQ(predicted(question).front().launch_s, 0);
}

TEST(MeasuredRuns, OfTwoBatchesTellKernelsFromArithmetic) {
  // The arithmetic takes 1 ms for each sample, and all kernels together 20 ms.
  const auto measured = [](double batch) {
    return MeasuredStep{.at = {1, 1}, .seconds = batch * 1e-3 + 20e-3, .batch = batch};
  };
  const auto facts = facts_with_kernels();
  const auto point = point_with(facts, LaunchWay::kGraph, false, 4, {measured(16), measured(64)});
  EXPECT_NEAR(point.step.seconds, 24e-3, 24e-3 * 0.03);
  // From one run alone, the numbers that the run does not determine are taken as published.
  const auto from_one = point_with(facts, LaunchWay::kGraph, false, 4, {measured(64)});
  EXPECT_LT(from_one.step.seconds, 10e-3);
}

TEST(MeasuredRuns, OfTwoNumbersOfRanksTellWhatAveragingCosts) {
  auto question = question_on("juwels-booster", {8});
  question.facts = facts_with_kernels();
  auto slow = question.machine;
  slow.links.slowness = 40;
  const PlanQuestion truth{.facts = question.facts, .schedule = question.schedule, .machine = slow, .nodes = {1, 2, 8}};
  const auto points = predicted(truth);
  ASSERT_GT(points[1].step.exposed_s, 0.1 * points[1].step.seconds);
  PlanTarget target{.ranks = 4};
  for (const int i : {0, 1})
    target.measured.push_back({.at = points[static_cast<std::size_t>(i)].at,
                               .seconds = points[static_cast<std::size_t>(i)].step.seconds,
                               .batch = 32});
  question.machine = plan_machine(profile_named("juwels-booster"), question.facts, target);
  EXPECT_NEAR(predicted(question).front().step.seconds, points[2].step.seconds, 0.1 * points[2].step.seconds);
}

TEST(MeasuredRuns, ThatAreFasterThanTheirKernelsCountThemForLess) {
  const auto facts = facts_with_kernels();
  const std::vector<MeasuredStep> measured = {{.at = {1, 1}, .seconds = 1e-3, .batch = 4}};
  EXPECT_NEAR(point_with(facts, LaunchWay::kEager, false, 4, measured).step.seconds, 1e-3, 0.05e-3);
  EXPECT_NEAR(point_with(facts, LaunchWay::kEager, false, 2, measured).step.seconds, 1e-3, 0.1e-3);
}

TEST(Plans, SayWhichBatchFits) {
  auto question = question_on("juwels-booster", {1});
  // Of 40 GiB, one is for the driver. Weights, gradients, state and buffers take 401 MiB, and each sample 10 MiB.
  EXPECT_EQ(largest_batch(question), (39 * 1024 - 401) / 10);
  EXPECT_HAS(plan_text(question, predicted(question)), "(it has 40.0 GiB); up to 3953 fit");
  question.machine.device_memory_bytes = 1.2 * (1 << 30);
  EXPECT_EQ(largest_batch(question), 0);
  EXPECT_HAS(plan_text(question, predicted(question)), "not even one sample fits");
  question.machine.device_memory_bytes = 0;
  EXPECT_FALSE(largest_batch(question));
}

TEST(Plans, AdviseThePrecisionThatDevicesAreFastIn) {
  const auto hints = [](const std::string& cluster, const std::string& precision, bool is_fast) {
    auto facts = some_facts();
    facts.precision = precision;
    auto profile = profile_named(cluster);
    profile.devices.fast_bf16 = is_fast;
    profile.devices.peak_tflops = {"bf16 10", "fp32 10", "fp16 10"};
    return joined(plan_machine(profile, facts, {}).hints, "; ");
  };
  EXPECT_HAS(hints("crukci-rocm", "bf16", false), "bf16 is no faster than fp32 on AMD Instinct MI50 32GB");
  EXPECT_HAS(hints("juwels-booster", "fp32", true), "bf16 is faster than fp32");
  EXPECT_EQ(hints("juwels-booster", "bf16", true), "");
  EXPECT_EQ(hints("crukci-rocm", "fp32", false), "");
}

TEST(Plans, FromADataSheetClaimNoError) {
  const auto point = predicted(question_on("lumi-g", {1})).front();
  EXPECT_FALSE(point.error);
  EXPECT_NEAR(point.step.compute_s, 3.2e12 / (0.2 * 191.5e12), 1e-9);
}

TEST(Plans, SayWhereEachNumberIsFrom) {
  const auto question = question_on("lumi-g", {1});
  const auto text = plan_text(question, predicted(question));
  EXPECT_HAS(text, "order of magnitude");
  EXPECT_HAS(text, "all-reduce in a node: 150 GB/s (lumi-g.toml:");
  EXPECT_HAS(text, "published: arXiv 2208.11035");
  const auto object = plan_json(question, predicted(question));
  EXPECT_TRUE(object.at("points").at(0).at("error").is_null());
  EXPECT_EQ(object.at("snapshot_bytes"), 301 * kMib);
}

TEST(Plans, ReachTenThousandRanksInShortTime) {
  auto question = question_on("frontier", {1, 1250});
  question.facts.train_samples = 1 << 24;
  const auto points = predicted(question);
  EXPECT_EQ(points[1].at.ranks(), 10000);
  EXPECT_LT(points[1].efficiency, 1);
  EXPECT_GT(points[1].efficiency, 0.3);
}

TEST(Plans, OfThisMachineKeepMeasuredStepsAndAddWhatCoresDoBesides) {
  auto question = question_on("generic", {1}, /*is_here=*/true);
  EXPECT_EQ(question.machine.basis, PlanBasis::kMeasuredHere);
  EXPECT_NEAR(predicted(question).front().step.seconds,
              cost_at(question.facts, 32).forward_s + cost_at(question.facts, 32).backward_s + 0.005, 1e-9);
}

TEST(Plans, RefuseABatchThatLeavesARankWithoutWork) {
  auto question = question_on("juwels-booster", {1, 32});
  question.schedule.global_batch = 64;
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { predicted(question); }),
             "data.global_batch is 64, but 32 nodes have 128 ranks, want a sample for each\n  hint: plan for 64 ranks");
  question = question_on("juwels-booster", {1024});
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { predicted(question); }),
             "on 1024 nodes the global batch is 131072, but the data set has 100000 samples");
}

TEST(PlanMachines, WantARateForTheDevice) {
  auto facts = some_facts();
  facts.precision = "bf16";
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { plan_machine(profile_named("crukci-rocm"), facts, {}); }),
             "it is unknown how fast AMD Instinct MI50 32GB computes in bf16");
  auto profile = profile_named("lumi-g");
  profile.devices.peak_tflops = {"bf16"};
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { plan_machine(profile, facts, {}); }),
             "devices.peak_tflops has 'bf16', want \"PRECISION TFLOPS\"");
}

TEST(Facts, HoldTheAveragingIfItWasTimed) {
  const auto text_with = [](const std::string& averaging) {
    return R"({"model":"m","precision":"fp32","device":"d","ranks":2,"threads":1,"cores":2,"is_timed":true,)"
           R"("parameters":1,"weight_bytes":4,"gradient_bytes":4,"optimizer_bytes":0,"buffer_bytes":0,)"
           R"("train_samples":10,"validation_samples":0,"read_s":0,"start_s":0,"gradients":[],"reduces":[],)"
           R"("batches":[{"samples":8,"forward_s":1,"backward_s":1,"update_s":1,"spread":0,"flops":1,)" +
           averaging + R"("activation_bytes":1}]})";
  };
  EXPECT_EQ(facts_of_json(text_with(R"("averaging_s":0.5,)"), "f").batches[0].averaging_s, 0.5);
  const auto facts = facts_of_json(text_with(""), "f");
  EXPECT_EQ(facts.batches[0].averaging_s, std::nullopt);
  EXPECT_EQ(cost_at(facts, 4).averaging_s, std::nullopt);
}

TEST(Facts, AreReadFromTheLastLineAndMissNothing) {
  EXPECT_HAS(message_of(ErrorKind::kData, [] { facts_of_json("{}", "facts.json"); }),
             "facts.json does not describe a training:");
  EXPECT_HAS(message_of(ErrorKind::kData, [] { facts_of_json("none", "facts.json"); }),
             "`lockstep-train describe RECIPE` prints it");
}

}  // namespace
}  // namespace lockstep
