// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/fit/batch_feed.h"
#include "lockstep/train/fit/forward_pass.h"
#include "lockstep/train/fit/loss_counter.h"
#include "lockstep/train/fit/trained_model.h"
#include "lockstep/train/guard/good_state.h"
#include "lockstep/train/guard/nonfinite_trace.h"
#include "lockstep/train/guard/state_comparison.h"

namespace lockstep {

/// Watches a training for gradients that are not finite, and for state that differs between ranks.
///
/// TrainedModel skips an update whose averaged gradients are not finite. They are the same on every rank, so all ranks
/// know at the same step without a message. On a CPU they know at once, on a device one step later, unless steps are to
/// be skipped. With loss scaling (fp16) such gradients are usual, and the scaler handles them.
class StepGuard {
 public:
  /// Numbers of a training's state, by name, which a resumed run goes on with.
  using Numbers = std::map<std::string, double>;

  /// All must outlive this object. `model` is connected.
  /// Throws: as TrainedModel::leave_out_nonfinite().
  StepGuard(TrainedModel& model, const TrainingData& data, ForwardPass& forward, LossCounter& losses,
            const GuardOptions& options);

  /// Saves the values that a skipped step must not change. Call it before each step.
  void before_step();
  /// Keeps the state after step `step` as one to go back to, if the options allow that. `extensions` are the same each
  /// time. Call it at the start of a run and at each save. Blocks: until the state is copied.
  void keep_good(std::int64_t step, const std::vector<Extension*>& extensions);
  /// Checks the step that was just made. If the step is left out, `numbers` says so, and names the steps before it that
  /// are left out too.
  /// Collective: yes. Throws: Error(kData), Error(kRecipe) or Error(kEnvironment) on every rank, as NonfiniteOrigin
  /// says. Throws the same if too many steps in a row are left out, or if the run has gone back too often.
  void after_step(const StepBatches& batches, const StepPlace& place, Numbers& numbers);
  /// Checks the last step if after_step() could not yet, on a device. Call it before the weights are used.
  /// Collective: yes. Blocks: until the device is done. Throws: as after_step().
  void settle();
  /// Compares ranks if that is due after step `step`, or in any case if `is_save`. `step_seconds` is the time of a
  /// step. Collective: yes. Blocks: as StateComparison::compare(). Throws: as StateComparison::compare(); as settle()
  /// if `is_save`.
  void compare(std::int64_t step, double step_seconds, bool is_save);

  /// Returns what is worth telling of a run's numbers: steps that were left out, returns to an earlier state.
  static std::map<std::string, std::string> findings(const Numbers& numbers);

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

  bool leaves_out() const;
  void skip(const Made& made, Numbers& numbers);
  void go_back(const Made& made, Numbers& numbers);
  [[noreturn]] void stop(const Made& made, const std::string& before = {});
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
  std::optional<Made> made_;  ///< On a device, the step whose gradients are not known yet.
  std::optional<GoodState> good_;
  std::int64_t told_ = 0;  ///< Skipped steps of this start that were told of.
  std::int64_t in_a_row_ = 0;
};

}  // namespace lockstep
