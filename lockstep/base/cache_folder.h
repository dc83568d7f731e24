// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/base/environment.h"

namespace lockstep {

/// What commands of this user keep for later ones: $LOCKSTEP_CACHE, else lockstep/ in $XDG_CACHE_HOME or in ~/.cache.
std::filesystem::path cache_folder(const Environment& env);

}  // namespace lockstep
