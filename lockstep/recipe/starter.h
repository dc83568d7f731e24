// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// Returns a recipe to start from, which runs as it is. Each setting has its help. Settings in `overrides` are set. All
/// others are comments that show their defaults.
///
/// Throws: as Recipe::parse does.
std::string starter_recipe(const std::vector<Override>& overrides);

}  // namespace lockstep
