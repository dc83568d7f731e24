// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the folder for files that this user's commands keep between runs. It is $LOCKSTEP_CACHE, or else lockstep/
/// in $XDG_CACHE_HOME or in ~/.cache.
std::filesystem::path cache_folder(const Environment& env);

}  // namespace lockstep
