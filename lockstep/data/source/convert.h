// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/data/source/folder_source.h"

namespace lockstep {

struct ConvertProgress {
  std::int64_t images = 0;
  std::int64_t all_images = 0;
  std::uint64_t bytes = 0;
  std::uint64_t all_bytes = 0;
};

/// One part of the data set and its group in the file.
struct ConvertPart {
  std::string group;  ///< "train", "val"
  FolderIndex index;
};

/// What was written, and what an earlier call had written before.
struct Converted {
  ConvertProgress done;
  std::int64_t images_kept = 0;
};

/// Writes image folders into one HDF5 file: for each part the encoded bytes as they are ("images"), their "index",
/// "labels", "names" and "xxh3" sums, and the "/classes". docs/data.md has the layout; h5py reads it.
///
/// The file is `to`.part until it is whole, and valid HDF5 all the while: a call that ended half way, however, is gone
/// on with by the next one, which first compares what is there with its sums. `tell` is called about ten times a
/// second's work, and with the end; false from it stops, to be gone on with later.
/// Throws: Error(kIo); Error(kUsage) where `to` exists; Error(kData) where an image changed its size meanwhile;
/// Error(kEnvironment) without HDF5, or where another process converts to the same file.
Converted convert_folders(const std::vector<ConvertPart>& parts, const std::filesystem::path& to,
                          const std::function<bool(const ConvertProgress&)>& tell);

}  // namespace lockstep
