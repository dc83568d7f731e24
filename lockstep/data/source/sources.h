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

/// Images and labels in IDX files, as MNIST: "input" U8 [1, rows, cols] and "target" I64 [].
///
/// `classes` 0 takes the largest label + 1.
/// Throws: Error(kIo), Error(kData): there are none, numbers of images and labels differ, a label is out of range
/// (named with its place).
std::unique_ptr<SampleSource> idx_source(const std::filesystem::path& images, const std::filesystem::path& labels,
                                         std::int64_t classes = 0);

/// The IDX files of one split in `folder`, by the names that MNIST's use: train-images-idx3-ubyte,
/// t10k-labels-idx1-ubyte…, with or without .gz. `split` is "train" or "validation" (t10k-).
///
/// Throws: Error(kData) naming the files looked for where one is missing, with how to get them. `has_idx_split` asks
/// first; one of the two files is enough for it, so that a half copied split is an error and not passed over.
std::unique_ptr<SampleSource> idx_folder_source(const std::filesystem::path& folder, const std::string& split,
                                                std::int64_t classes = 0);
bool has_idx_split(const std::filesystem::path& folder, const std::string& split);

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
