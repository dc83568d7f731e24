// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/step_lead.h"

#include "lockstep/device/watched_wait.h"

namespace lockstep {
namespace {

constexpr int kStepsPerMark = 16;
constexpr std::size_t kMarksAhead = 2;

}  // namespace

void StepLead::after_step(const std::function<void()>& look) {
  if (device_.is_cpu() || ++steps_ < kStepsPerMark) return;
  steps_ = 0;
  marks_.push_back(device_.backend->mark(device_.index()));
  if (marks_.size() <= kMarksAhead) return;
  // The thread sleeps while it waits. The device still has many steps to do, so waking up late costs nothing.
  watched_wait(marks_.front(), look, /*awake=*/std::chrono::microseconds(0));
  marks_.pop_front();
}

}  // namespace lockstep
