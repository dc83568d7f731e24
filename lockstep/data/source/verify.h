// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// A sample that cannot be read.
struct BadSample {
  std::int64_t id = 0;
  std::string name;
  std::string fact;
};

/// Reads every sample once on `threads` threads. Returns the samples whose read throws Error(kData) or Error(kIo), in
/// order. The calling thread calls `tell` with the number of samples done, about a hundred times in all.
///
/// Throws: any other exception of a sample's read; Error(kUsage) if threads < 1.
std::vector<BadSample> bad_samples(const SampleSource& source, int threads,
                                   const std::function<void(std::int64_t done)>& tell);

}  // namespace lockstep
