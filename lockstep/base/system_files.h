// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

// What the system tells, mostly in files (/proc, /sys, settings): what is not there says nothing, and is no error.

/// This machine's name, as the kernel has it; empty where it does not tell.
std::string host_name();

/// The content of a file, or nothing where it cannot be read.
std::string text_or_nothing(const std::filesystem::path& path);

/// The names in a folder, sorted; none where it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace lockstep
