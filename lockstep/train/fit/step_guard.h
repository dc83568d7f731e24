// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/train/fit/batch_feed.h"
#include "lockstep/train/fit/forward_pass.h"
#include "lockstep/train/fit/trained_model.h"
#include "lockstep/train/guard/nonfinite_trace.h"
#include "lockstep/train/guard/state_comparison.h"
#include "lockstep/train/sums/loss_counter.h"

namespace lockstep {

/// Watches a training for gradients that are not finite, and for state that differs between ranks.
///
/// TrainedModel skips an update whose averaged gradients are not finite. Averaged gradients are the same on every rank,
/// so all ranks see this at the same step without a message. On a CPU they see it at once, and on a device one step
/// later, unless steps should be skipped. With loss scaling (fp16) such gradients are usual, and the scaler handles
/// them.
class StepGuard {
 public:
  /// The arguments must outlive this object. `model` is connected.
  StepGuard(TrainedModel& model, const TrainingData& data, ForwardPass& forward, LossCounter& losses,
            const GuardOptions& options);

  /// Saves the values that a skipped step must not change. Call it before each step.
  void before_step();
  /// Checks the step that was just made. Returns false if the step was skipped and does not count.
  /// Collective: yes. Throws: Error(kData), Error(kRecipe) or Error(kEnvironment) on every rank, as NonfiniteOrigin
  /// says; Error(kRecipe) if too many steps in a row are left out.
  bool after_step(const StepBatches& batches, const StepPlace& place);
  /// Checks the last step, which on a device after_step() could not check yet. Call it before the weights are used.
  /// Collective: yes. Blocks: until the device is done. Throws: as after_step().
  void settle();
  /// Compares the state of all ranks, if a comparison is due after step `step` or if `is_save`. `step_seconds` is the
  /// time of a step. Collective: yes. Blocks: as StateComparison::compare(). Throws: as StateComparison::compare(); as
  /// settle() if `is_save`.
  void compare(std::int64_t step, double step_seconds, bool is_save);
  /// Forgets a step that was torn after step `step`. The next comparison is planned anew.
  void restart(std::int64_t step);

 private:
  struct Before {
    LossSums losses;
    MetricSums metrics;
    std::vector<at::Tensor> buffers;
  };
  struct Made {
    StepBatches batches;
    StepPlace place;
  };

  void leave_out(const Made& made);
  [[noreturn]] void stop(const Made& made);
  NonfiniteOrigin origin(const Made& made);
  void restore();

  TrainedModel& model_;
  const TrainingData& data_;
  ForwardPass& forward_;
  LossCounter& losses_;
  const GuardOptions& options_;
  StateComparison comparison_;
  bool watches_;  ///< Gradients are looked at.
  std::optional<Before> before_;
  std::optional<Made> made_;   ///< On a device, the step whose gradients are not known yet.
  std::int64_t left_out_ = 0;  ///< Steps of this start.
  std::int64_t in_a_row_ = 0;
};

}  // namespace lockstep
