// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

// Facts that the system reports, mostly in files: /proc, /sys, settings. A missing file is no error, and yields
// nothing.

/// Returns this machine's host name from the kernel. Empty if the kernel does not report it.
std::string host_name();

/// The content of a file, or nothing if it cannot be read.
std::string text_or_nothing(const std::filesystem::path& path);

/// The names in a folder, sorted. None if it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace lockstep
