// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/train/fit/trainer_options.h"
#include "lockstep/train/fit/training_data.h"
#include "lockstep/train/model_failure.h"
#include "lockstep/train/module.h"
#include "lockstep/train/synced_statistics.h"

namespace lockstep {

/// The position of a step in a training: its number, epoch and so on.
struct StepPlace {
  std::int64_t step = 0;   ///< Steps done before it.
  std::int64_t epoch = 0;  ///< Epochs completed before it.
  /// True if a device records the step. An exception then keeps LibTorch's type, since the type shows whether the step
  /// cannot be recorded.
  bool is_recorded = false;
};

/// Runs a module's training_step() on a batch. It sets the random seeds and the training's precision. If this rank has
/// no sample but the others need it, it runs a stand-in sample.
class ForwardPass {
 public:
  /// The arguments must outlive this object. Throws: Error(kRecipe) if BatchNorm should be synchronised and the module
  /// has no BatchNorm layer.
  ForwardPass(Module& module, Group& group, const TrainerOptions& options, const TrainingData& data);

  /// Seeds all generators for batch `index` of a step. Random choices within a step are a pure function of seed, step,
  /// index and rank, so a resumed run makes the same ones.
  void seed(std::int64_t step, std::int64_t index) const;
  /// Seeds only the device's generator. It is for a replay, which draws no random numbers on the host.
  void seed_device(std::int64_t step, std::int64_t index) const;

  /// Returns the batch to run, which is usually `batch` itself. If `batch` has no samples and BatchNorm is
  /// synchronised, returns a stand-in sample, so that this rank takes part in the layers' sums. If `batch` has no
  /// samples otherwise, returns null.
  const Batch* batch_to_run(const Batch& batch);
  /// Runs training_step() and returns its loss. Throws: an exception of the model as throw_model_failure() makes it.
  /// Shape: returns [].
  at::Tensor loss(const Batch& batch, const StepPlace& place);

  /// Calls `work`, which runs the model on `batch`, so that its exceptions name the step.
  template <typename Work>
  static void name_failures(const Batch& batch, const StepPlace& place, Work&& work) {
    if (place.is_recorded) return work();
    naming_model_failures(
        batch,
        [&] { return "training step " + std::to_string(place.step + 1) + " of epoch " + std::to_string(place.epoch); },
        std::forward<Work>(work));
  }

  /// True if the module's layers communicate with other ranks, so that no rank can run a batch alone.
  bool is_synchronised() const { return statistics_.has_value(); }

 private:
  std::uint64_t seed_of(std::int64_t step, std::int64_t index) const;

  Module& module_;
  Group& group_;
  const TrainerOptions& options_;
  const TrainingData& data_;
  std::optional<SyncedStatistics> statistics_;
  std::optional<Batch> stand_in_;
  c10::Device device_;  ///< Of the weights.
};

}  // namespace lockstep
