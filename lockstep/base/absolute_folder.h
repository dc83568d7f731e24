// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep {

/// Returns the absolute, normal path of a folder, without the slash that a shell's completion leaves at its end: so
/// filename() is the folder's name. The folder need not exist.
std::filesystem::path absolute_folder(const std::filesystem::path& folder);

}  // namespace lockstep
