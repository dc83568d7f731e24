// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/step_timer.h"

#include <gtest/gtest.h>

#include "tests/support/pretended_device.h"

namespace lockstep {
namespace {

using testing::Pretended;

// Lets time pass, so that a time that is not counted can be seen.
void let_time_pass() {
  const auto start = Clock::now();
  while (seconds_between(start, Clock::now()) < 1e-3) {
  }
}

TEST(StepTimer, AddsUpTheTimesOfSteps) {
  auto group = alone();
  StepTimer timer(group);
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    let_time_pass();
    const auto seconds = timer.end_step();
    EXPECT_GE(seconds, 1e-3);
    sum += seconds;
  }
  EXPECT_DOUBLE_EQ(timer.seconds_in_steps(), sum);
  EXPECT_LE(timer.seconds_in_steps(), timer.seconds());
}

TEST(StepTimer, LeavesOutWhatCameBeforeARestart) {
  auto group = alone();
  StepTimer timer(group);
  let_time_pass();
  const auto before = Clock::now();
  timer.restart();
  const auto seconds = timer.end_step();
  EXPECT_LE(seconds, seconds_between(before, Clock::now()));
  EXPECT_GE(timer.seconds(), 1e-3 + timer.seconds_in_steps());
}

TEST(StepTimer, CountsEarlierStartsToTheRunAlone) {
  auto group = alone();
  StepTimer timer(group);
  timer.add_earlier(1e6);
  EXPECT_GE(timer.seconds_of_run(), 1e6);
  EXPECT_LT(timer.seconds(), 1e6);
}

TEST(StepTimer, KeepsTheTimeToTheFirstStep) {
  auto group = alone();
  StepTimer timer(group);
  EXPECT_EQ(timer.time_to_first_step(), std::nullopt);
  timer.end_step();
  const auto first = timer.time_to_first_step();
  ASSERT_TRUE(first);
  let_time_pass();
  timer.end_step();
  EXPECT_EQ(timer.time_to_first_step(), first);
}

TEST(StepTimer, WaitsForADeviceThatWasGivenSteps) {
  const Pretended device;
  auto group = device.group();
  StepTimer timer(group);
  timer.await_device();
  EXPECT_EQ(device.synchronisations, 0) << "it was given nothing";
  timer.note_work();
  let_time_pass();
  timer.await_device();
  EXPECT_EQ(device.synchronisations, 1);
  EXPECT_GE(timer.seconds_in_steps(), 1e-3) << "the steps end when the device has done them";
  timer.await_device();
  EXPECT_EQ(device.synchronisations, 1);
}

TEST(StepTimer, DoesNotWaitOnACpu) {
  auto group = alone();
  StepTimer timer(group);
  timer.note_work();
  timer.await_device();
  EXPECT_EQ(timer.seconds_in_steps(), 0);
}

}  // namespace
}  // namespace lockstep
