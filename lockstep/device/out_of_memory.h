// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

/// What a batch of one size took at most.
struct BatchPeak {
  std::int64_t batch = 0;
  std::int64_t bytes = 0;
};

/// The largest batch below `tried` that fits into `usable` bytes, if memory grows with the batch along the line through
/// the two peaks that were measured; nothing where not even one sample does, or nothing is known.
std::optional<std::int64_t> largest_batch(const std::vector<BatchPeak>& peaks, std::int64_t tried, std::int64_t usable);

/// What is known where a device ran out of memory. Units: bytes.
struct MemoryShortage {
  std::string device{};      ///< "NVIDIA H200 (sm_90, …)"
  std::int64_t batch = 0;    ///< Of this rank, that did not fit.
  std::int64_t usable = 0;   ///< That this process could hold in all.
  std::int64_t kept = 0;     ///< Held between steps: weights, buffers, what the optimizer keeps, gradient buckets.
  std::int64_t samples = 0;  ///< Of that, by samples that are kept there.
  std::vector<BatchPeak> peaks{};
};

/// Error(kEnvironment) for a device whose memory a training has used up. A type of its own, so that a search for the
/// largest batch can go on.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const MemoryShortage& shortage);
};

}  // namespace lockstep
