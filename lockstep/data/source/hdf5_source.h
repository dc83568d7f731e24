// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/image_source.h"

namespace lockstep {

/// Which arrays of a file hold what. Empty: the first of the names in use that is there: x, images, image, data,
/// inputs; y, labels, label, targets.
struct Hdf5Names {
  std::string input = {};
  std::string target = {};
};

/// One part of a data set in an HDF5 file; either `images` or `arrays` is set.
struct Hdf5Part {
  std::shared_ptr<const EncodedImages> images;
  std::shared_ptr<const SampleSource> arrays;
  std::vector<std::string> classes;  ///< Their names, where the file has them.
};

/// The group of a part: "/train", "/val"…, or "/" for a file of arrays only, which is all of the training part. Nothing
/// where there is none.
std::optional<std::string> hdf5_group(const std::filesystem::path& file, const std::string& split);

/// Reads the arrays of `group`:
///
/// - encoded images: bytes one after the other with "index" [N, 2] of offset and length, as `data convert` writes
///   them, or rows of bytes of varied length, as h5py's vlen_dtype(uint8) does;
/// - arrays of samples: [N, …] of any type that a tensor has. Of bytes, [N, height, width], [N, height, width, 3] and
///   [N, 3, height, width] all become "input" U8 [channels, height, width]; others keep their shape.
///
/// "target" is I64 []: integers [N] or [N, 1]. `classes` 0 takes the largest label + 1, or the number of the file's
/// "/classes".
/// Throws: Error(kData) where an array is missing or of the wrong shape, numbers of samples and labels differ, a label
/// is out of range, or the index points beyond the bytes; Error(kIo); Error(kEnvironment) without HDF5.
Hdf5Part hdf5_part(const std::filesystem::path& file, const std::string& group, const Hdf5Names& names = {},
                   std::int64_t classes = 0);

}  // namespace lockstep
