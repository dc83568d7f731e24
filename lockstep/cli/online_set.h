// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// A file on a server, with its size and checksum.
struct OnlineFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  ///< 64 lower-case hexadecimal digits.
};

/// A data set on a server, for `data fetch`. It is built in, or a user's TOML file describes it.
struct OnlineSet {
  std::string name;  ///< "cifar10"
  std::string about;
  std::string kind;               ///< The data.kind that reads it.
  std::vector<std::string> from;  ///< Addresses that the files' names are put behind, tried in this order.
  std::string checksums;          ///< The address where the checksums were published.
  std::vector<OnlineFile> files;
  std::string unpacks_to;  ///< The folder inside the archives (.zip or .tar.gz). If empty, files are not unpacked.
};

/// "mnist", "cifar10"…
std::vector<std::string> online_set_names();

/// Returns the built-in set of that name or, if `word` ends in .toml, the one that the file describes.
///
/// Throws: Error(kUsage) naming the built-in sets if there is none of this name; Error(kIo) if the file cannot be read;
///         Error(kRecipe) with file and key if it is wrong.
OnlineSet online_set(const std::string& word);

/// Parses the TOML description of a set. docs/guide/data.md lists the keys.
///
/// Throws: Error(kRecipe) with `name` and the key.
OnlineSet parsed_online_set(std::string_view toml, const std::string& name);

}  // namespace lockstep::cli
