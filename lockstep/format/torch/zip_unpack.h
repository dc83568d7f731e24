// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace lockstep {

/// Unpacks a zip file into `folder`, which exists. Names are checked before the first byte is written. A name that is
/// absolute, holds "..", or is neither a file's nor a folder's makes the whole archive an error.
///
/// Calls `tell` after each file, with the bytes written so far and those of all files.
/// Throws: Error(kData) naming the entry if its name leads out of the folder, if its checksum is wrong, or if it is
///         damaged, encrypted or a link; Error(kIo) if a file cannot be written.
void unpack_zip(const std::filesystem::path& archive, const std::filesystem::path& folder,
                const std::function<void(std::uint64_t done, std::uint64_t all)>& tell);

}  // namespace lockstep
