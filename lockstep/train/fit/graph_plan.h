// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/train/toggle.h"

namespace lockstep {

/// Decides for `trainer.graph`, step by step, between a step's operations one by one and a recording of them all: some
/// steps one by one, timed; the recording; some replays, timed; then the faster way to the end.
///
/// Steps of another shape than the recorded one (an epoch's short last batch) are not asked about; they interrupt a
/// timing, as validation and snapshots do.
class GraphPlan {
 public:
  enum class Way { kEager, kRecord, kReplay };

  /// `steps_in_row`: how many steps of the full shape come one after the other, so that a timing fits in.
  GraphPlan(Toggle toggle, std::int64_t steps_in_row);

  /// For the coming step.
  Way next() const;
  /// A claim: a timing begins or ends before the coming step; the caller waits for the device and then calls mark().
  bool wants_mark() const;
  void mark(Clock::time_point now);
  /// The step was made in the way of next().
  void done();
  void interrupt();

  struct Times {
    double eager_s = 0;
    double replay_s = 0;
  };
  /// Both times of a step, once they are known and nothing is decided: every rank then hands decide() the same.
  std::optional<Times> undecided() const;
  void decide(const Times& times);

  /// Nothing is recorded from here on.
  void refuse(std::string reason);

  bool is_decided() const { return phase_ == Phase::kDecided; }
  /// What was decided, and why: for the log.
  const std::string& reason() const { return reason_; }

 private:
  enum class Phase { kWarm, kEagerTimed, kRecord, kReplayWarm, kReplayTimed, kCompare, kDecided };

  void enter(Phase phase);
  bool is_timed() const { return phase_ == Phase::kEagerTimed || phase_ == Phase::kReplayTimed; }

  Toggle toggle_;
  std::int64_t timed_steps_;
  Phase phase_ = Phase::kWarm;
  std::int64_t steps_ = 0;  ///< Of this phase.
  std::optional<Clock::time_point> began_;
  Times times_;
  bool replays_ = false;  ///< Once decided.
  std::string reason_;
};

/// What is known of a training before its first step, to tell whether its step can be recorded.
struct GraphFacts {
  bool device_records = false;
  std::string module_reason{};  ///< Module::why_not_recorded()
  std::int64_t accumulate = 1;
  bool finds_unused = false;
  bool keeps_compression = false;  ///< powersgd counts its steps on the host.
  bool skips_steps = false;        ///< The host waits for each step's gradients, to leave it out if need be.
  bool update_is_fused = false;
  bool moves_momentum = false;     ///< The schedule does.
  bool has_empty_parts = false;    ///< A rank has no samples in a full batch.
  bool shares_device = false;      ///< Gradients go through the host.
  bool needs_double_rate = false;  ///< The host hands each update its learning rate, in full precision.
  std::string runtime_reason{};    ///< why_recordings_are_blind(), if nobody insists on recording.
};

/// Why a recording by this runtime is not to be trusted; empty if it is. `runtime` and `version` as in RuntimeFacts.
std::string why_recordings_are_blind(const std::string& runtime, const std::string& version);

/// Why the step cannot be recorded; empty where it can.
std::string why_not_recorded(const GraphFacts& facts);

}  // namespace lockstep
