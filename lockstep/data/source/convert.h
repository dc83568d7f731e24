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

/// The amounts that this call wrote, and that an earlier one had written.
struct Converted {
  ConvertProgress done;
  std::int64_t images_kept = 0;
};

/// Writes image folders into one HDF5 file. Each part has the encoded bytes unchanged ("images"), their "index",
/// "labels", "names" and "xxh3" sums, and there are "/classes". docs/guide/data.md has the layout, and h5py reads it.
///
/// The file is `to`.part until it is complete, and valid HDF5 at any time. The next call continues one that ended
/// halfway, after comparing the existing bytes with their sums. `tell` is called about ten times a second, and at the
/// end. If it returns false, the conversion stops, and a later call can continue it.
/// Throws: Error(kIo) if a file cannot be read or written; Error(kUsage) if `to` exists; Error(kData) if an image
/// changed its size meanwhile; Error(kEnvironment) without HDF5, or if another process converts to the same file.
Converted convert_folders(const std::vector<ConvertPart>& parts, const std::filesystem::path& to,
                          const std::function<bool(const ConvertProgress&)>& tell);

}  // namespace lockstep
