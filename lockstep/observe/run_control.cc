// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/run_control.h"

#include <algorithm>

namespace lockstep {

RunControl::RunControl(const std::filesystem::path& run_dir, const Environment& env) : clock_(env) {
  if (clock_.end() && *clock_.end() <= std::chrono::system_clock::now()) clock_ = {};
  if (!run_dir.empty()) requests_.emplace(run_dir);
}

std::string RunControl::reason_to_stop(std::optional<double> longest_step_s) const {
  if (requests_ && requests_->wants_stop()) return "request";
  const auto now = std::chrono::system_clock::now();
  return longest_step_s && clock_.is_time_to_stop(now, longest_save_s_, *longest_step_s) ? "job_end" : "";
}

void RunControl::begin_save(std::int64_t step) {
  save_began_ = Clock::now();
  if (requests_) requests_->begin_save(step);
}

void RunControl::written(const SnapshotWritten& snapshot) {
  longest_save_s_ = std::max(longest_save_s_, seconds_between(save_began_, Clock::now()));
  if (requests_) requests_->written(snapshot);
}

}  // namespace lockstep
