// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/base/environment.h"

namespace lockstep::cli {

/// Where `submit` puts this user's runs on this system.
std::filesystem::path runs_here(const Environment& env);

}  // namespace lockstep::cli
