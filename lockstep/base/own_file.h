// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep {

/// Returns the file that this code was loaded from. It is the program, or the shared library that a Python has loaded.
/// The files that Lockstep opens at run time are beside it.
std::filesystem::path own_file();

}  // namespace lockstep
