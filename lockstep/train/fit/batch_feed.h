// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/device/device.h"
#include "lockstep/device/streams.h"
#include "lockstep/train/fit/training_data.h"

namespace lockstep {

/// The batches that make one optimizer step.
struct StepBatches {
  std::vector<Batch> batches;
  std::int64_t global_samples = 0;  ///< Samples of all ranks, of all these batches.
};

/// Reads the batches of each step. To a device it copies the next step's batches while this step is computed.
class BatchFeed {
 public:
  /// `data` must outlive this object.
  BatchFeed(const TrainingData& data, std::int64_t accumulate, const RankDevice& device);

  /// Makes the next step begin at index `place` of an epoch.
  void seek(std::int64_t epoch, std::int64_t place);
  /// Returns the batches of the step that begins at `place`, on the device. The epoch must have samples left at
  /// `place`. Blocks: until the batches are decoded. Throws: as Loader::next().
  StepBatches next(std::int64_t place);
  /// Begins to copy the batches of the step at `place`, if there is a device. Call this after a step was launched on
  /// the device, when the host can wait for the loader without losing time. Blocks and throws: as next().
  void read_ahead(std::int64_t place);

 private:
  StepBatches read(std::int64_t place);

  const TrainingData& data_;
  std::int64_t accumulate_;
  bool is_first_ = true;                ///< The next batch is the first of an epoch, which may take much longer.
  std::unique_ptr<CopyStream> copies_;  ///< Null on a CPU.
  std::optional<StepBatches> ahead_;    ///< The next step's, on its way to the device.
};

}  // namespace lockstep
