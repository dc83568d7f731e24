// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep {

/// Returns the file that this code was loaded from: the program, or the shared library that a Python has loaded. What
/// Lockstep opens at run time lies beside it.
std::filesystem::path own_file();

}  // namespace lockstep
