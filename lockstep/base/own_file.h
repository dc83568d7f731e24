// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep {

/// Returns the path of the file that this code was loaded from. That is the program, or the shared library if Python
/// has loaded it. The files that Lockstep opens at run time are in the same folder.
std::filesystem::path own_file();

}  // namespace lockstep
