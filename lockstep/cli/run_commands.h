// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep::cli {

/// Where `submit` puts this user's runs on this system.
std::filesystem::path runs_here(const Environment& env);

/// Throws: Error(kUsage) where a number of nodes is below 1.
void check_nodes(const std::vector<int>& nodes);

}  // namespace lockstep::cli
