// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Derives sources from another source, such as a subset by ids, a source with other labels, or a split into training
/// and validation drawn by seed.
///
///     std::shared_ptr<const lockstep::SampleSource> all = lockstep::synthetic_source({.samples = 1000});
///     const auto split = lockstep::drawn_split(all->size(), 0.2, 42);
///     std::shared_ptr train = lockstep::subset(all, split.train);
///     std::shared_ptr validation = lockstep::subset(all, split.validation);

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// Returns some of a source's samples under new ids 0, 1, 2…. Names, fields and classes are those of the source.
/// Several subsets share one source and so its memory. Random choices in a sample depend on its id in the source.
///
/// Throws: Error(kUsage) if an id is not one of the source's.
std::unique_ptr<SampleSource> subset(std::shared_ptr<const SampleSource> source, std::vector<std::int64_t> ids);

/// Returns a source with other labels. `label` of the source becomes `labels[label]`, and there are `classes` classes.
std::unique_ptr<SampleSource> relabelled(std::shared_ptr<const SampleSource> source, std::vector<std::int64_t> labels,
                                         std::int64_t classes);

/// The ids of the two parts, both ascending.
struct Split {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
};

/// Draws ids for validation by seed, and leaves the rest for training. If `held_out` is below 1, it is a share of
/// `samples`, rounded. From 1 on it is a number of samples.
///
/// Throws: Error(kRecipe) if `held_out` is neither, or if either part would be empty.
/// Source: docs/formats/batches.md: the first entries of the order of epoch -1.
Split drawn_split(std::int64_t samples, double held_out, std::uint64_t seed);

}  // namespace lockstep
