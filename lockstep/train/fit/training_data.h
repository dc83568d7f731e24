// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/train/data_module.h"
#include "lockstep/train/fit/trainer_options.h"
#include "lockstep/train/module.h"

namespace lockstep {

/// The loaders of a training on this rank, within the limits of its options.
class TrainingData {
 public:
  /// Calls prepare_data() on rank 0 and setup() on every rank, then makes the loaders.
  ///
  /// Collective: yes. Throws: what `data` throws; Error(kUsage) on every rank if a loader does not use the rank's
  ///             shard, or if the loaders of two ranks differ in size, global batch, seed or order, or if one rank has
  ///             no loader.
  TrainingData(DataModule& data, const TrainerOptions& options, Group& group);

  Loader& train() const { return *train_; }
  /// Returns the loader for validation. Null if there is none.
  Loader* validation() const { return validation_.get(); }
  /// Returns the description of the data as JSON. Empty if the data module has none.
  const std::string& schema() const { return schema_; }

  /// Returns the number of samples of an epoch, and of a validation, of all ranks together.
  std::int64_t epoch_samples() const { return epoch_samples_; }
  std::int64_t validation_samples() const { return validation_samples_; }
  /// Returns the number of samples of one full step, of all ranks together.
  std::int64_t step_samples() const { return train_->options().global_batch * accumulate_; }
  /// Returns the number of steps that the first `samples` of an epoch take.
  std::int64_t steps_for(std::int64_t samples) const;
  /// True if no step is left in an epoch after its first `place` samples.
  bool is_epoch_over(std::int64_t place) const;

 private:
  std::unique_ptr<Loader> train_;
  std::unique_ptr<Loader> validation_;
  std::string schema_;
  std::int64_t accumulate_;
  std::int64_t epoch_samples_ = 0;
  std::int64_t validation_samples_ = 0;
};

/// Returns a loader of the source's first samples in their own order, epoch after epoch.
std::unique_ptr<Loader> first_samples(const Loader& loader, std::int64_t samples);

/// Returns the planned length of the training.
TrainingPlan training_plan(const TrainerOptions& options, const TrainingData& data);

}  // namespace lockstep
