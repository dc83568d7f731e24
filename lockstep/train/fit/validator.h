// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "lockstep/train/fit/forward_pass.h"
#include "lockstep/train/fit/participants.h"
#include "lockstep/train/fit/trained_model.h"

namespace lockstep {

/// Evaluates the module on the validation data. If an extension such as WeightAverage keeps averages of the weights,
/// they are used. Averaged weights have no BatchNorm statistics, so the validator computes them from training data.
class Validator {
 public:
  using Metrics = std::map<std::string, double>;

  /// The arguments must outlive this object. `model` is connected.
  Validator(TrainedModel& model, const TrainingData& data, ForwardPass& forward, const Participants& participants,
            const StepOptions& options);

  /// Returns the metrics over all validation samples of all ranks. Returns nothing if all ranks agreed meanwhile to
  /// stop. The data must have a loader for validation.
  ///
  /// If a batch fails on any rank, all ranks end the pass, call `save`, and throw. With several ranks, an exception of
  /// the module's on_validation_end() is not shared with the other ranks. It leaves this function at once.
  ///
  /// Collective: yes, `save` too. Throws: the module's and the loader's errors; on the other ranks the same error with
  /// the rank that failed; the errors of `save` if this rank has not failed.
  std::optional<Metrics> validate(const StepPlace& place, StopRequest& stop, const std::function<void()>& save);

  /// Computes the BatchNorm statistics that averaged weights lack, for a snapshot or the training's end. The pass also
  /// runs after a stop by a listener or by max_time. A signal interrupts the pass, and asks for a stop. Leaves the
  /// training's loader at any position. Returns true if the statistics were computed. Collective: yes.
  bool refresh_statistics(const StepPlace& place, StopRequest& stop);

 private:
  enum class PassEnd { kWhole, kStopped, kFailed };

  bool take_statistics(const StepPlace& place, const std::function<bool()>& is_stopped);
  PassEnd run_pass(StopRequest& stop, std::exception_ptr& failure);
  Metrics metrics_over_ranks(const MeanMetrics& means, std::exception_ptr& failure);
  void fail(const std::exception_ptr& failure, const std::function<void()>& save);

  TrainedModel& model_;
  const TrainingData& data_;
  ForwardPass& forward_;
  const Participants& participants_;
  Precision precision_;
};

}  // namespace lockstep
