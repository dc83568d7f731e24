// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Samples made up by seed, to try a network or a cluster without data.
///
///     std::shared_ptr source = lockstep::synthetic_source({.samples = 2000, .classes = 4, .shape = {8}, .seed = 1});
///     lockstep::Loader loader(source, {.global_batch = 100});

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// The options of generated samples, which have "input" F32 `shape` and "target" I64 []. Sample i belongs to class i %
/// classes. It is drawn around the centre of that class, from (seed, i) alone, so it is the same in every epoch.
///
/// Centres are at least 2 apart. Their coordinates are from 1 - base to base - 1, for the smallest base whose digits
/// can distinguish the classes in one sample. The base is 2 if a sample has many numbers. The noise is bell-shaped,
/// with standard deviation 0.29 and at most 1. So a small network reaches an accuracy above 0.99.
///
/// The bytes are the same on every machine with IEEE floats. No function of the mathematical library is used, and no
/// rounding depends on the order or the fusing of operations. Throws: Error(kRecipe) if an option is out of range.
struct SyntheticOptions {
  std::int64_t samples = 1000;
  std::int64_t classes = 2;
  std::vector<std::int64_t> shape = {2};
  std::uint64_t seed = 0;
};
std::unique_ptr<SampleSource> synthetic_source(const SyntheticOptions& options);

}  // namespace lockstep
