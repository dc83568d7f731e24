// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/train/fit/batch_feed.h"
#include "lockstep/train/fit/trained_model.h"

namespace lockstep {

/// The facts for throw_out_of_memory(), apart from the model.
struct ShortageFacts {
  std::int64_t sample_bytes = 0;  ///< Bytes of samples that are kept on the device.
  bool may_try = false;           ///< True if this rank may run smaller batches alone.
  Precision precision = Precision::kFp32;
};

/// Ends a training whose device ran out of memory in a step. It disconnects the model from the other ranks and measures
/// the memory that smaller batches need. Then it throws OutOfMemory with the largest batch that would fit. Call it in
/// the handler of the exception.
[[noreturn]] void throw_out_of_memory(TrainedModel& model, const Batch& batch, const ShortageFacts& facts);

}  // namespace lockstep
