// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "lockstep/train/fit/forward_pass.h"
#include "lockstep/train/fit/participants.h"
#include "lockstep/train/fit/trained_model.h"

namespace lockstep {

/// Evaluates the module on the validation data, with the weights that extensions put in its place. It also takes the
/// BatchNorm statistics that such weights lack.
class Validator {
 public:
  using Metrics = std::map<std::string, double>;

  /// All must outlive this object. `model` is connected.
  Validator(TrainedModel& model, const TrainingData& data, ForwardPass& forward, const Participants& participants,
            const StepOptions& options);

  /// Returns the metrics over all validation samples of all ranks; nothing if `stop` was agreed to meanwhile. The
  /// data must have a loader for validation.
  /// Collective: yes. Throws: what the module and the loader throw.
  std::optional<Metrics> validate(const StepPlace& place, StopRequest& stop);

  /// Takes the statistics that extensions' weights lack, for a snapshot or the training's end. A stop by a callback or
  /// by time leaves time for the pass; a signal does not, and asks for a stop. Leaves the training's loader anywhere.
  /// Returns true if they were taken. Collective: yes.
  bool refresh_statistics(const StepPlace& place, StopRequest& stop);

 private:
  bool take_statistics(const StepPlace& place, const std::function<bool()>& is_stopped);

  TrainedModel& model_;
  const TrainingData& data_;
  ForwardPass& forward_;
  const Participants& participants_;
  Precision precision_;
};

}  // namespace lockstep
