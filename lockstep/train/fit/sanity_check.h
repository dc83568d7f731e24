// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/train/fit/forward_pass.h"
#include "lockstep/train/fit/participants.h"
#include "lockstep/train/fit/trained_model.h"

namespace lockstep {

/// Finds before the first step what would otherwise end the run after its first epoch, such as a validation that fails
/// or a metric that never comes.
///
/// The check validates one batch, with a loader of its own. Weights, buffers, generators, metrics and the data's
/// loaders are restored afterwards, so the check does not change the training's numbers. Counts in a user module's own
/// members are not restored.
class SanityCheck {
 public:
  /// The arguments must outlive this object. `model` is connected.
  SanityCheck(TrainedModel& model, const TrainingData& data, ForwardPass& forward, const StepOptions& options);

  /// Checks the first batch of validation, if there is one. If the validation does not give a metric of `monitors`, the
  /// check also runs training_step() on one batch, which may log the metric. Ranks may have different monitors. Leaves
  /// the module in training mode.
  ///
  /// Collective: yes. Throws, on every rank: the module's and the loader's errors; Error(kRecipe) if a metric of
  ///             `monitors` will not come; the message lists the metrics that will.
  void run(const std::vector<Monitor>& monitors);

 private:
  using Names = std::set<std::string>;

  Names validate_batch();
  Names train_batch();
  void leave_no_trace(const std::function<void()>& work);
  void require(const std::vector<Monitor>& monitors, const Names& names);

  TrainedModel& model_;
  const TrainingData& data_;
  ForwardPass& forward_;
  Precision precision_;
};

}  // namespace lockstep
