// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/training_history.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

constexpr auto kStart =
    R"({"event":"run_started","step":0,"time":1000.0,"name":"digits","world":2,"epochs":10,"steps_per_epoch":29,"steps_total":290,"batch":25,"global_batch":50,"parameters":1234,"resumed_from":null,"facts":{}})";
constexpr auto kValidation =
    R"({"event":"validation","step":29,"time":1029.0,"epoch":0,"samples":360,"seconds":0.1,"train_loss":0.8,"metrics":{"val_accuracy":0.9,"val_loss":0.4}})";
constexpr auto kEnd =
    R"({"event":"run_ended","step":290,"time":1300.0,"epochs":10,"samples":14500,"stopped_by":"max_epochs","seconds":300.0,"samples_per_second":50.0,"time_to_first_step_s":0.1,"metrics":{"val_loss":0.1}})";

std::string step(int step, double time, const std::string& loss = "0.5") {
  return R"({"event":"step","step":)" + std::to_string(step) + R"(,"time":)" + std::to_string(time) +
         R"(,"epoch":1,"step_in_epoch":1,"loss":)" + loss + R"(,"learning_rate":0.1,"samples_per_second":1043.2})";
}

std::optional<TrainingStatus> status_of(const std::vector<std::string>& lines, double now) {
  TrainingHistory history;
  for (const auto& line : lines) history.take(parsed_metrics(line).value());
  return history.status(now);
}

TEST(TrainingHistory, HasNothingToTellBeforeTheFirstLine) { EXPECT_FALSE(status_of({}, 1000).has_value()); }

TEST(TrainingHistory, TellsHowFarTheRunIs) {
  const auto status = status_of({kStart, kValidation, step(40, 1040)}, 1040).value();
  EXPECT_EQ(status.step, 40);
  EXPECT_EQ(status.steps_total, 290);
  EXPECT_EQ(status.epoch, 1);
  EXPECT_EQ(status.epochs, 10);
  EXPECT_EQ(status.loss, 0.5);
  EXPECT_EQ(status.samples_per_second, 1043.2);
  EXPECT_EQ(status.validation.at("val_accuracy"), 0.9);
  EXPECT_FALSE(status.has_ended);
}

TEST(TrainingHistory, TimeLeftIsWhatStepsHaveTakenSoFar) {
  EXPECT_EQ(status_of({kStart, step(40, 1040), step(90, 1140)}, 1140).value().seconds_left, 400.0);
  EXPECT_EQ(status_of({kStart, step(40, 1040), step(90, 1140)}, 1150).value().seconds_left, 390.0);
  EXPECT_EQ(status_of({kStart, step(40, 1080)}, 1080).value().seconds_left, 500.0) << "from the run's start";
}

TEST(TrainingHistory, ARunWithoutAPlannedEndHasNoTimeLeft) {
  EXPECT_FALSE(status_of({step(40, 1040), step(90, 1140)}, 1140).value().seconds_left.has_value());
}

TEST(TrainingHistory, AResumedRunBeginsAnew) {
  const auto status = status_of({kStart, step(40, 1040), kEnd, kStart}, 1400).value();
  EXPECT_FALSE(status.has_ended);
  EXPECT_FALSE(status.loss.has_value());
  EXPECT_FALSE(status.seconds_left.has_value());
}

TEST(TrainingHistory, ALossThatWasNotFiniteIsNone) {
  EXPECT_FALSE(status_of({kStart, step(40, 1040, "null")}, 1040).value().loss.has_value());
}

TEST(TrainingHistory, TellsWhatEndedTheRun) {
  const auto status = status_of({kStart, step(40, 1040), kEnd}, 1300).value();
  EXPECT_TRUE(status.has_ended);
  EXPECT_EQ(status.stopped_by, "max_epochs");
  EXPECT_FALSE(status.seconds_left.has_value());
}

}  // namespace
}  // namespace lockstep
