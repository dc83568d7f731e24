// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/step_timer.h"

#include <algorithm>

#include "lockstep/base/system_files.h"

namespace lockstep {

double StepTimer::end_step() {
  const auto now = Clock::now();
  const double seconds = seconds_between(last_step_, now);
  seconds_in_steps_ += seconds;
  last_step_ = now;
  if (time_to_first_step_) longest_step_ = std::max(longest_step_, seconds);
  if (!time_to_first_step_) time_to_first_step_ = seconds_since_process_start();
  return seconds;
}

void StepTimer::await_device() {
  if (group_.device().is_cpu() || !is_device_busy_) return;
  group_.await_device();
  is_device_busy_ = false;
  const auto now = Clock::now();
  seconds_in_steps_ += seconds_between(last_step_, now);
  last_step_ = now;
}

}  // namespace lockstep
