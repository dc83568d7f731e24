// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// A recipe to start from, that runs as it is: each setting with its help; those that `overrides` give are set, the
/// others are comments that show their defaults.
///
/// Throws: as Recipe::parse does.
std::string starter_recipe(const std::vector<Override>& overrides);

}  // namespace lockstep
