// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/cluster/plan/machine.h"
#include "lockstep/cluster/plan/plan.h"
#include "lockstep/cluster/profile/library.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

using nlohmann::json;

json published() {
  return json::parse(text_of_file(lockstep::testing::source_root() / "tests/golden/plan/published.json"));
}

TrainingFacts facts_of(const json& figure) {
  TrainingFacts facts;
  const double bytes = figure.at("parameters").get<double>() * 4;
  const int tensors = figure.at("tensors");
  facts.weight_bytes = facts.gradient_bytes = bytes;
  facts.optimizer_bytes = bytes * figure.at("optimizer_states").get<double>();
  for (int i = 0; i < tensors; ++i) facts.gradients.push_back({.bytes = bytes / tensors, .ready = (i + 1.0) / tensors});
  facts.train_samples = figure.at("train_samples");
  facts.validation_samples = figure.at("validation_samples");
  facts.start_s = figure.at("start_s");
  // Of a layer's three matrix products, one belongs to the forward pass. The given step sets how long they take.
  facts.batches = {{.samples = figure.at("batch"), .forward_s = 1.0 / 3, .backward_s = 2.0 / 3}};
  return facts;
}

PlanQuestion question_of(const json& figure, const json& at, double step_s) {
  const auto& from = figure.at("from");
  PlanQuestion question;
  question.facts = facts_of(figure);
  question.schedule.batch = figure.at("batch");
  question.schedule.epochs = figure.at("epochs");
  question.schedule.save_every = figure.at("save_every");
  const PlanTarget target{
      .ranks = at.at("per_node"),
      .measured = {
          MeasuredStep{.at = {from.at("nodes"), from.at("per_node")}, .seconds = step_s, .batch = figure.at("batch")}}};
  question.machine = plan_machine(ProfileLibrary(Environment{}).named(figure.at("profile")), question.facts, target);
  question.machine.start_calls = figure.at("start_calls");
  question.machine.save_s_per_byte = figure.at("bytes_saved_s");
  question.nodes = {at.at("nodes")};
  return question;
}

double timed(const PlanPoint& point, const std::string& what) {
  return what == "run" ? point.run_s : what == "epoch" ? point.epoch_s : point.step.seconds;
}

/// Returns the step time with which the prediction for the given job equals its measured time.
double step_given(const json& figure) {
  const auto& from = figure.at("from");
  double low = 0;
  double high = from.at("seconds");
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    const double found = timed(predicted(question_of(figure, from, middle)).front(), figure.at("timed"));
    (found < from.at("seconds").get<double>() ? low : high) = middle;
  }
  return high;
}

TEST(PublishedFigures, ArePredictedWithinTheStatedError) {
  const auto all = published();
  for (const auto& figure : all.at("scaling")) {
    const auto& to = figure.at("to");
    const auto point = predicted(question_of(figure, to, step_given(figure))).front();
    const double measured = to.at("seconds");
    const double off = timed(point, figure.at("timed")) / measured - 1;
    ASSERT_TRUE(point.error) << figure.at("name");
    EXPECT_LE(*point.error, 0.25) << figure.at("name");
    EXPECT_LE(std::abs(off), *point.error) << figure.at("name") << ": " << timed(point, figure.at("timed")) << " s for "
                                           << measured << " s, off by " << off;
    std::cout << figure.at("name") << ": predicted " << timed(point, figure.at("timed")) << " s, measured " << measured
              << " s, off by " << std::lround(off * 100) << " %, stated " << std::lround(*point.error * 100) << " %\n";
  }
}

/// The error that the test allows. It was chosen before any prediction was made.
constexpr double kStrongScalingError = 0.25;

PlanQuestion strong_question(const json& figure) {
  PlanQuestion question;
  auto& facts = question.facts;
  const double bytes = figure.at("parameters").get<double>() * 4;
  const int tensors = figure.at("tensors");
  const double global_batch = figure.at("global_batch");
  facts.weight_bytes = facts.gradient_bytes = bytes;
  for (int i = 0; i < tensors; ++i) facts.gradients.push_back({.bytes = bytes / tensors, .ready = (i + 1.0) / tensors});
  facts.train_samples = 1 << 20;
  facts.batches = {{.samples = static_cast<std::int64_t>(global_batch),
                    .flops = 1e12,
                    .forward = {.all = figure.at("forward_kernels")},
                    .backward = {.all = figure.at("backward_kernels")}}};
  question.schedule.global_batch = figure.at("global_batch");
  question.schedule.epochs = 1;
  const auto& to = figure.at("to");
  PlanTarget target{.ranks = to.at("per_node")};
  for (const auto& run : figure.at("measured")) {
    const RankLayout at{run.at("nodes"), run.at("per_node")};
    target.measured.push_back(
        {.at = at, .seconds = run.at("seconds"), .batch = run.value("batch", global_batch / at.ranks())});
  }
  auto profile = ProfileLibrary(Environment{}).named(figure.at("profile"));
  profile.devices.bus_gbs = figure.value("bus_gbs", profile.devices.bus_gbs);
  question.machine = plan_machine(profile, facts, target);
  question.nodes = {to.at("nodes")};
  return question;
}

TEST(PublishedFigures, OfStrongScalingWithSmallBatchesFollowFromTwoRuns) {
  const auto all = published();
  for (const auto& figure : all.at("strong_scaling")) {
    const double measured = figure.at("to").at("seconds");
    const auto point = predicted(strong_question(figure)).front();
    const double off = point.step.seconds / measured - 1;
    EXPECT_LE(std::abs(off), kStrongScalingError) << figure.at("name");
    std::cout << figure.at("name") << ": predicted " << point.step.seconds << " s, measured " << measured
              << " s, off by " << std::lround(off * 100) << " %\n";
    if (figure.at("measured").size() == 1) continue;
    // Predicted from the larger batch alone, without the fixed cost of kernels, the time is too short.
    auto question = strong_question(figure);
    question.machine.launch = {};
    question.machine.measured.resize(1);
    EXPECT_GT(measured / predicted(question).front().step.seconds, 1 + kStrongScalingError) << figure.at("name");
  }
}

TEST(PublishedFigures, OfBusBandwidthFollowFromTheHardware) {
  const auto all = published();
  for (const auto& figure : all.at("bus_gbs")) {
    const auto profile = ProfileLibrary(Environment{}).named(figure.at("profile"));
    const PlanLinks links{.node_bus = static_cast<double>(profile.devices.bus_gbs) * 1e9,
                          .network_bus = static_cast<double>(profile.network.node_gbs) * 1e9};
    const RankLayout at{figure.at("nodes"), figure.at("per_node")};
    constexpr double kBytes = 4e9;
    const double share = 2.0 * (at.ranks() - 1) / at.ranks();
    const double found = kBytes * share / all_reduce_seconds(kBytes, at, links) / 1e9;
    EXPECT_LE(std::abs(found / figure.at("measured").get<double>() - 1), kHardwareError)
        << figure.at("name") << " " << found;
    std::cout << figure.at("name") << ": predicted " << found << " GB/s, measured " << figure.at("measured") << "\n";
  }
}

}  // namespace
}  // namespace lockstep
