// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// Some of a source's samples under new ids 0, 1, 2…; names, fields and classes are the source's own.
/// `source` is shared: several subsets of one set cost its memory once. Random choices stay those of the source's id.
///
/// Throws: Error(kUsage) where an id is not the source's.
std::unique_ptr<SampleSource> subset(std::shared_ptr<const SampleSource> source, std::vector<std::int64_t> ids);

/// Ids drawn by seed for validation, and the rest for training, each ascending. `held_out` below 1 is a share of
/// `samples`, rounded; from 1 on a whole number of them.
///
/// Throws: Error(kRecipe) where it is neither, or either part would be empty.
/// Source: docs/batches.md: the first entries of the order of epoch -1.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
};
Split drawn_split(std::int64_t samples, double held_out, std::uint64_t seed);

}  // namespace lockstep
