// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/train/fit/graph_plan.h"
#include "lockstep/train/fit/step_runner.h"

namespace lockstep {

/// Makes the steps of a training. If the device can record a whole step, it records one and replays it, provided that
/// this is faster. Otherwise StepRunner makes each step.
class GraphStepper {
 public:
  /// The arguments must outlive this object.
  GraphStepper(TrainedModel& model, StepRunner& steps, ForwardPass& forward, LossCounter& losses,
               const TrainerOptions& options);
  /// Decides from the data's batches whether steps may be recorded. Call it once, before the first step.
  /// Throws: Error(kRecipe) if `trainer.graph` is on and the step cannot be recorded.
  void plan(const TrainingData& data);

  /// Makes one step. It replays a recording, or records the step and replays it once, or runs one operation after the
  /// other.
  /// Collective: yes. Throws: as StepRunner::run(); Error(kUsage) if a recording that was asked for fails.
  void run(const StepBatches& step, const StepPlace& place);
  /// Ends the timing that is running. Call it before a step of another shape, a validation or a snapshot, which would
  /// distort the time.
  void interrupt();
  /// Drops the recording if some rank has no memory for a pass over other data beside it. The next full step is then
  /// recorded again. Call it before such a pass, with the samples of the pass's global batch.
  /// Collective: yes. Blocks: until the device has done its work, if it drops the recording.
  void make_room_for_pass(std::int64_t global_batch);
  /// Frees the recording's memory. Call it after the last step.
  void clear() { graph_.reset(); }

  /// Returns a sentence on whether steps are replayed, and why. Returns nothing if steps could never be recorded here.
  const std::optional<std::string>& finding() const { return finding_; }

 private:
  bool is_full(const StepBatches& step) const { return step.global_samples == full_samples_; }
  void decide();
  bool all_have_room(double steps);
  void drop_recording();
  void make_room_for_short_step();
  void record(const StepBatches& step, const StepPlace& place);
  bool try_recording(const StepBatches& step, const StepPlace& place, std::string& reason);
  void prepare_recording(const StepBatches& step, const StepPlace& place);
  void capture(StepPlace place);
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
  std::int64_t graph_bytes_ = 0;  ///< Memory of the device that only the recording uses.
  StepBatches recorded_;          ///< The batch that the recording reads from, filled before each replay.
  std::optional<std::string> finding_;
};

}  // namespace lockstep
