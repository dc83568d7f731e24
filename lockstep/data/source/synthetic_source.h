// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// Sample i is of class i % classes, drawn around that class's centre from (seed, i) alone, so an epoch changes
/// nothing: "input" F32 `shape`, "target" I64 []. Centres lie 2 apart at least, in numbers from 1 - base to base - 1
/// for the smallest base whose digits can tell the classes in one sample (2 where there are many numbers); the noise is
/// bell-shaped, of standard deviation 0.29 and at most 1, so that a small network separates the classes beyond 0.99.
///
/// The bytes are the same on every machine with IEEE floats: no function of the mathematical library takes part, and no
/// rounding depends on the order or the fusing of operations. Throws: Error(kRecipe) where an option is out of range.
struct SyntheticOptions {
  std::int64_t samples = 1000;
  std::int64_t classes = 2;
  std::vector<std::int64_t> shape = {2};
  std::uint64_t seed = 0;
};
std::unique_ptr<SampleSource> synthetic_source(const SyntheticOptions& options);

}  // namespace lockstep
