// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Arrays and images in HDF5 files as samples.
///
///     const auto group = lockstep::hdf5_group("set.h5", "train");  // "/train", or "/"
///     auto part = lockstep::hdf5_part("set.h5", group.value());
///     if (part.arrays) lockstep::Loader loader(part.arrays, {.global_batch = 64});

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/image_source.h"

namespace lockstep {

/// The names of the arrays with inputs and targets. If a name is empty, the file is searched for usual names: x,
/// images, image, data and inputs for inputs, and y, labels, label and targets for targets.
struct Hdf5Names {
  std::string input = {};
  std::string target = {};
  bool needs_target = true;  ///< If false, targets may be missing. Every target is then 0.
};

/// One part of a data set in an HDF5 file. Either `images` or `arrays` is set.
struct Hdf5Part {
  std::shared_ptr<const EncodedImages> images;
  std::shared_ptr<const SampleSource> arrays;
  std::vector<std::string> classes;  ///< Names of the classes. Empty if the file has none.
};

/// Returns the group of a part, such as "/train" or "/val". If a file has arrays but no such groups, its root "/" is
/// the training part. Returns nothing if the file has no such part.
std::optional<std::string> hdf5_group(const std::filesystem::path& file, const std::string& split);

/// Reads the arrays of `group`:
///
/// - encoded images: either bytes one after the other with "index" [N, 2] of offset and length, as `data convert`
///   writes them, or rows of bytes of varied length, as h5py's vlen_dtype(uint8) does;
/// - arrays of samples: [N, …] of any type that a tensor has. Bytes of [N, height, width], [N, height, width, 3] and
///   [N, 3, height, width] all become "input" U8 [channels, height, width]. Other arrays keep their shape.
///
/// "target" is I64 [], from integers [N] or [N, 1]. The number of classes is the length of the file's "/classes". If
/// that is missing, it is `classes`, or the largest label + 1 if `classes` is 0.
/// Throws: Error(kData) if an array is missing or of the wrong shape, if numbers of samples and labels differ, if a
/// label is out of range, or if the index points beyond the bytes; Error(kIo) if the file cannot be read;
/// Error(kEnvironment) without HDF5.
Hdf5Part hdf5_part(const std::filesystem::path& file, const std::string& group, const Hdf5Names& names = {},
                   std::int64_t classes = 0);

}  // namespace lockstep
