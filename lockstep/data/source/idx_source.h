// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Images and labels in IDX files, such as MNIST, as samples.
///
///     std::shared_ptr source = lockstep::idx_folder_source("datasets/digits", "train");
///     lockstep::Loader loader(source, {.global_batch = 50, .shard = {world.rank(), world.world()}});
///     while (const auto batch = loader.next()) std::cout << batch->input().sizes() << "\n";

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// Opens images and labels in IDX files. Samples have "input" U8 [1, rows, cols] and "target" I64 [].
///
/// If `classes` is 0, the number of classes is the largest label + 1. If `labels` is empty, every target is 0.
/// Throws: Error(kIo) if a file cannot be read; Error(kData) if there are no images, if numbers of images and labels
/// differ, or if a label is out of range, with its index.
std::unique_ptr<SampleSource> idx_source(const std::filesystem::path& images, const std::filesystem::path& labels,
                                         std::int64_t classes = 0);

/// Opens the IDX files of one split in `folder`. Files have MNIST's names, such as train-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte, with or without .gz. `split` is "train" or "validation" (t10k-).
///
/// If needs_labels is false, the file of labels may be missing. Every target is then 0. has_idx_split() is true if the
/// folder has at least one of the two files. So a split that was copied only in part is an error and is not ignored.
/// Throws: Error(kData) if a file is missing; the message names the files and says how to get them.
std::unique_ptr<SampleSource> idx_folder_source(const std::filesystem::path& folder, const std::string& split,
                                                std::int64_t classes = 0, bool needs_labels = true);
bool has_idx_split(const std::filesystem::path& folder, const std::string& split);

}  // namespace lockstep
