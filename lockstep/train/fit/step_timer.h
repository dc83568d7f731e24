// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/base/clock.h"
#include "lockstep/comm/group.h"

namespace lockstep {

/// Measures the time of a training's parts. Validations and snapshots do not count as steps. Units: seconds.
class StepTimer {
 public:
  /// Starts the clock of the training. `group` must outlive this object.
  explicit StepTimer(Group& group) : group_(group), started_(Clock::now()), last_step_(started_) {}

  /// Adds the time of earlier starts of the run.
  void add_earlier(double seconds) { seconds_before_ = seconds; }
  /// Starts the time of the next step.
  void restart() { last_step_ = Clock::now(); }
  /// Notes that a step was launched on the device.
  void note_work() { is_device_busy_ = true; }
  /// Ends a step, and returns the time since the last one ended or restart().
  double end_step();
  /// Waits for the device if steps were launched on it. The time of these steps ends when the device has done them.
  /// Blocks: until the device is done. Throws: as Group::await_device().
  void await_device();

  /// Return the time since this start, and the time of the whole run. The latter adds up all starts. If a start was
  /// killed, its time after the last snapshot is not counted.
  double seconds() const { return seconds_between(started_, Clock::now()); }
  double seconds_of_run() const { return seconds_before_ + seconds(); }
  double seconds_in_steps() const { return seconds_in_steps_; }
  /// Returns the longest step of this start, without the first step, which also sets things up.
  double longest_step() const { return longest_step_; }
  /// Returns the time from the process's start to the end of the first step. Nothing if no step was made.
  std::optional<double> time_to_first_step() const { return time_to_first_step_; }

 private:
  Group& group_;
  Clock::time_point started_;
  Clock::time_point last_step_;
  double seconds_before_ = 0;
  double seconds_in_steps_ = 0;
  double longest_step_ = 0;
  bool is_device_busy_ = false;
  std::optional<double> time_to_first_step_;
};

}  // namespace lockstep
