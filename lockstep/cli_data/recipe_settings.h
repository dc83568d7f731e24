// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/source/data_sets.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// Returns the settings of a recipe's [data] for a data set on disk, that is any kind but synthetic.
///
/// Throws: Error(kRecipe) if data.path names a variable that is not set.
DataSettings data_settings_of(const Recipe& recipe);

}  // namespace lockstep
