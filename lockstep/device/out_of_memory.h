// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

/// The peak of memory for a batch of one size.
struct BatchPeak {
  std::int64_t batch = 0;
  std::int64_t bytes = 0;
};

/// Returns the largest batch below `tried` that fits into `usable` bytes, assuming that memory grows linearly with the
/// batch through the two measured peaks. Nothing if not even one sample fits, or if no peak is known.
std::optional<std::int64_t> largest_batch(const std::vector<BatchPeak>& peaks, std::int64_t tried, std::int64_t usable);

/// The facts known when a device ran out of memory. Units: bytes.
struct MemoryShortage {
  std::string device{};      ///< "NVIDIA H200 (sm_90, …)"
  std::int64_t batch = 0;    ///< Of this rank, that did not fit.
  std::int64_t usable = 0;   ///< That this process could hold in all.
  std::int64_t kept = 0;     ///< Held between steps by weights, buffers, optimizer state and gradient buckets.
  std::int64_t samples = 0;  ///< Of that, by samples that are kept there.
  std::vector<BatchPeak> peaks{};
};

/// An Error(kEnvironment) for a device without memory left. It is a type so that a search for the largest batch can
/// catch it and continue.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const MemoryShortage& shortage);
};

}  // namespace lockstep
