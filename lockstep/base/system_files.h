// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

/// Reading what the system tells in files (/proc, /sys, settings): what is not there says nothing, and is no error.

/// The content of a file, or nothing where it cannot be read.
std::string text_or_nothing(const std::filesystem::path& path);

/// The names in a folder, sorted; none where it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace lockstep
