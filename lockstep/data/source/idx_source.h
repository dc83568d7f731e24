// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

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

}  // namespace lockstep
