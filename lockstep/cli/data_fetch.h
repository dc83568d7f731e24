// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/online_set.h"

namespace lockstep::cli {

struct FetchedSet {
  std::filesystem::path path;        ///< The value for data.path.
  std::uint64_t bytes = 0;           ///< Fetched now.
  std::vector<std::string> fetched;  ///< Files, by name. The others were there.
};

/// Downloads a data set into `folder`. Each file is written as NAME.part, checked against its checksum and renamed. An
/// archive is unpacked into a temporary folder, which is then renamed. Existing files are kept, so the same call
/// continues after an interruption. `mirror` replaces the set's own addresses unless it is empty.
///
/// Throws: Error(kIo) if no address gives the file; Error(kData) if a file has another checksum; Error(kEnvironment) if
/// another process fetches into the folder, or curl or tar is missing.
FetchedSet fetch(const OnlineSet& set, const std::filesystem::path& folder, const std::string& mirror,
                 const Context& context);

}  // namespace lockstep::cli
