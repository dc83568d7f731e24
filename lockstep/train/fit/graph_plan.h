// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/train/toggle.h"

namespace lockstep {

/// Decides for `trainer.graph`, step by step, whether a step runs one operation at a time or as a recording. It times
/// some steps of the first kind, records, times some replays, and then chooses the faster way until the end.
///
/// Steps of another shape than the recorded one (an epoch's short last batch) do not take part. They interrupt a
/// timing, as validation and snapshots do.
class GraphPlan {
 public:
  enum class Way { kEager, kRecord, kReplay };

  /// `steps_in_row` is the number of successive steps of the full shape. A timing must fit into them.
  GraphPlan(Toggle toggle, std::int64_t steps_in_row);

  /// For the coming step.
  Way next() const;
  /// True if a timing begins or ends before the coming step. The caller waits for the device and then calls mark().
  bool wants_mark() const;
  void mark(Clock::time_point now);
  /// Tells the plan that a step was made in the way that next() returned.
  void done();
  void interrupt();

  struct Times {
    double eager_s = 0;
    double replay_s = 0;
  };
  /// Returns both times of a step, once they are known and nothing is decided. Every rank then passes the same ones to
  /// decide().
  std::optional<Times> undecided() const;
  void decide(const Times& times);

  /// Tells the plan that the recording was dropped, and the next full step is recorded again.
  void record_again();

  /// Ends the plan: from here on no step is recorded, for this reason.
  void refuse(std::string reason);

  bool is_decided() const { return phase_ == Phase::kDecided; }
  /// Returns the decision and its reason, for the log.
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

/// The facts of a training before its first step, which decide whether its step can be recorded.
struct GraphFacts {
  bool device_records = false;
  std::string module_reason{};  ///< Module::why_not_recorded()
  std::int64_t accumulate = 1;
  bool finds_unused = false;
  bool keeps_compression = false;  ///< powersgd counts its steps on the host.
  bool skips_steps = false;        ///< The host waits for each step's gradients, to leave it out if need be.
  bool awaits_gradients = false;   ///< The host does, before each update, so that a lost rank can be replaced.
  bool update_is_fused = false;
  bool moves_momentum = false;     ///< The schedule does.
  bool has_empty_parts = false;    ///< A rank has no samples in a full batch.
  bool shares_device = false;      ///< Gradients go through the host.
  bool needs_double_rate = false;  ///< The host hands each update its learning rate, in full precision.
  std::string runtime_reason{};    ///< From why_recordings_are_blind(), unless the user demands recording.
};

/// Returns why recordings of this runtime can give wrong results. Empty if they are correct. `runtime` and `version`
/// are as in RuntimeFacts.
std::string why_recordings_are_blind(const std::string& runtime, const std::string& version);

/// Returns why the step cannot be recorded. Empty if it can.
std::string why_not_recorded(const GraphFacts& facts);

}  // namespace lockstep
