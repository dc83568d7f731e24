// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/train/fit/graph_plan.h"
#include "lockstep/train/fit/step_runner.h"

namespace lockstep {

/// Records a whole step on a device that can, and replays it if that is faster. Elsewhere StepRunner makes each step.
class GraphStepper {
 public:
  /// All must outlive this object.
  GraphStepper(TrainedModel& model, StepRunner& steps, ForwardPass& forward, LossCounter& losses,
               const TrainerOptions& options);
  /// Decides whether steps may be recorded, for the data's batches. Call it once, before the first step.
  /// Throws: Error(kRecipe) if `trainer.graph` is on and the step cannot be recorded.
  void plan(const TrainingData& data);

  /// Makes the step, by a replay, by a recording and its first replay, or one operation at a time.
  /// Collective: yes. Throws: as StepRunner::run(); Error(kUsage) if a recording that was asked for fails.
  void run(const StepBatches& step, const StepPlace& place);
  /// Ends a timing that steps of another shape, a validation or a snapshot would spoil.
  void interrupt();
  /// Frees the recording's memory. Call it after the last step.
  void clear() { graph_.reset(); }

  /// Returns whether steps are replayed, and why or why not. Nothing if that was never a question.
  const std::optional<std::string>& finding() const { return finding_; }

 private:
  bool is_full(const StepBatches& step) const { return step.global_samples == full_samples_; }
  void decide();
  void record(const StepBatches& step, const StepPlace& place);
  bool try_recording(const StepBatches& step, StepPlace place, std::string& reason);
  void count_replay(std::int64_t samples);
  void replay(const StepBatches& step, const StepPlace& place);

  TrainedModel& model_;
  StepRunner& steps_;
  ForwardPass& forward_;
  LossCounter& losses_;
  const TrainerOptions& options_;
  std::int64_t full_samples_ = 0;  ///< Of a global batch.
  std::optional<GraphPlan> plan_;  ///< On a device that records.
  std::unique_ptr<StepGraph> graph_;
  StepBatches recorded_;  ///< The batch that the recording reads from, filled before each replay.
  std::optional<std::string> finding_;
};

}  // namespace lockstep
