// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

// Facts that the system reports, mostly in files under /proc and /sys. A missing file is not an error. The result is
// then empty.

/// Returns this machine's host name from the kernel. Empty if the kernel does not report it.
std::string host_name();

/// Returns the content of a file, or nothing if the file cannot be read.
std::string text_or_nothing(const std::filesystem::path& path);

/// Returns the names of a folder's entries, sorted. Without those that cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace lockstep
