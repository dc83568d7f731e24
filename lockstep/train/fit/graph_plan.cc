// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/graph_plan.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

// In the first ten steps c10d::Reducer measures its times by device events. A recording made then would contain these
// events in every replay.
constexpr std::int64_t kWarmSteps = 12;
constexpr std::int64_t kWarmReplays = 2;
constexpr std::int64_t kFewestTimed = 3;
constexpr std::int64_t kMostTimed = 20;
constexpr double kSlowerByAtMost = 1.05;

std::string microseconds(double seconds) { return fixed(seconds * 1e6, 0) + " µs"; }

}  // namespace

GraphPlan::GraphPlan(Toggle toggle, std::int64_t steps_in_row)
    : toggle_(toggle), timed_steps_(std::clamp(steps_in_row / 3, kFewestTimed, kMostTimed)) {
  if (toggle == Toggle::kOff) refuse("trainer.graph is off");
}

GraphPlan::Way GraphPlan::next() const {
  switch (phase_) {
    case Phase::kRecord:
      return Way::kRecord;
    case Phase::kReplayWarm:
    case Phase::kReplayTimed:
    case Phase::kCompare:
      return Way::kReplay;
    case Phase::kDecided:
      return replays_ ? Way::kReplay : Way::kEager;
    default:
      return Way::kEager;
  }
}

bool GraphPlan::wants_mark() const { return is_timed() && (!began_ || steps_ == timed_steps_); }

void GraphPlan::mark(Clock::time_point now) {
  if (!began_) {
    began_ = now;
    return;
  }
  const double seconds = seconds_between(*began_, now) / static_cast<double>(timed_steps_);
  if (phase_ == Phase::kEagerTimed) {
    times_.eager_s = seconds;
    enter(Phase::kRecord);
  } else {
    times_.replay_s = seconds;
    enter(Phase::kCompare);
  }
}

void GraphPlan::done() {
  ++steps_;
  if (phase_ == Phase::kWarm && steps_ == kWarmSteps) {
    enter(toggle_ == Toggle::kOn ? Phase::kRecord : Phase::kEagerTimed);
  } else if (phase_ == Phase::kRecord) {
    if (toggle_ == Toggle::kOn) {
      enter(Phase::kDecided);
      replays_ = true;
      reason_ = "whole steps are replayed: trainer.graph is on";
    } else {
      enter(Phase::kReplayWarm);
    }
  } else if (phase_ == Phase::kReplayWarm && steps_ == kWarmReplays) {
    enter(Phase::kReplayTimed);
  }
}

void GraphPlan::interrupt() {
  if (!is_timed()) return;
  began_.reset();
  steps_ = 0;
}

std::optional<GraphPlan::Times> GraphPlan::undecided() const {
  return phase_ == Phase::kCompare ? std::optional(times_) : std::nullopt;
}

// Chooses replays even if they are slightly slower, since a replay leaves the host's core to the loader. If the loader
// limits both ways, their times differ only by chance.
void GraphPlan::decide(const Times& times) {
  enter(Phase::kDecided);
  replays_ = times.replay_s <= kSlowerByAtMost * times.eager_s;
  reason_ = std::string(replays_ ? "whole steps are replayed: " : "steps are not replayed: ") +
            microseconds(times.replay_s) + " a step, " + microseconds(times.eager_s) + " one operation at a time";
}

void GraphPlan::record_again() {
  if (phase_ == Phase::kReplayWarm || phase_ == Phase::kReplayTimed) enter(Phase::kRecord);
}

void GraphPlan::refuse(std::string reason) {
  enter(Phase::kDecided);
  replays_ = false;
  reason_ = "steps are not replayed: " + std::move(reason);
}

void GraphPlan::enter(Phase phase) {
  phase_ = phase;
  steps_ = 0;
  began_.reset();
}

// Source: ROCm/pytorch issue 3323. Older versions do not report a copy to the host while they record. Each replay then
//         uses the value that the recording read.
std::string why_recordings_are_blind(const std::string& runtime, const std::string& version) {
  constexpr std::array<int, 2> kReports{7, 14};
  const auto parts = split(version, '.');
  if (runtime != "ROCm" || parts.size() < 2) return {};
  const std::array<int, 2> found{parsed_int<int>(parts[0]).value_or(0), parsed_int<int>(parts[1]).value_or(0)};
  if (found >= kReports) return {};
  return "HIP " + version +
         " does not say what a recording cannot hold (7.14 does); trainer.graph = \"on\" records all the same";
}

std::string why_not_recorded(const GraphFacts& facts) {
  if (!facts.device_records) return "the device records no work";
  if (!facts.runtime_reason.empty()) return facts.runtime_reason;
  if (!facts.module_reason.empty()) return facts.module_reason;
  if (facts.accumulate > 1)
    return "each of the batches that trainer.accumulate adds up draws random numbers of its own";
  if (facts.finds_unused) return "trainer.find_unused_parameters looks for them on the host in each step";
  if (facts.keeps_compression) return "trainer.compression powersgd goes another way once it begins";
  if (facts.skips_steps) return "guard.on_nonfinite = skip waits for the gradients of each step";
  if (facts.awaits_gradients) return "trainer.heal = on waits for the gradients of each step";
  if (!facts.update_is_fused) return "the optimizer is not one of Lockstep's, whose updates need nothing of the host";
  if (facts.moves_momentum) return "the schedule moves the momentum, which a recording holds fast";
  if (facts.has_empty_parts) return "a full batch leaves some ranks without samples";
  if (facts.needs_double_rate) return "in fp64 the host hands over the learning rate, which a recording holds fast";
  if (facts.shares_device) return "ranks that share a device send gradients through the host";
  return {};
}

}  // namespace lockstep
