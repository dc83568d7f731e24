// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/source/data_sets.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// What a recipe's [data] says of a data set on disk: any kind but synthetic, which has none.
///
/// Throws: Error(kRecipe) where data.path names a variable that is not set.
DataSettings data_settings_of(const Recipe& recipe);

}  // namespace lockstep
