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
  std::filesystem::path path;        ///< What data.path is to be.
  std::uint64_t bytes = 0;           ///< Fetched now.
  std::vector<std::string> fetched;  ///< Files, by name; the others were there.
};

/// Brings a data set into `folder`: each file goes to NAME.part, is checked against its sum and renamed; archives are
/// unpacked beside their place and renamed into it. What is there is left as it is, so the same call goes on after a
/// break. `mirror` replaces the set's own addresses where it is not empty.
///
/// Throws: Error(kIo) where no address gives the file; Error(kData) where its sum is another; Error(kEnvironment) where
/// another process fetches into the folder, or curl or tar is missing.
FetchedSet fetch(const OnlineSet& set, const std::filesystem::path& folder, const std::string& mirror,
                 const Context& context);

}  // namespace lockstep::cli
