// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/recipe/raw_setting.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// The result of merging several sources.
struct Settled {
  std::map<std::string, Setting, std::less<>> settings;
  std::vector<std::string> notes;
  std::vector<std::string> gaps;  ///< Keys that must be set and are not.
};

/// Merges the settings of all sources, and fills in defaults, by the rules of docs/guide/recipes.md.
///
/// `raw` is ordered by source, lowest first. If a source has a key twice, the last value counts. Throws: as
/// Recipe::load(), but not for missing values.
Settled settled(const std::vector<RawSetting>& raw);

}  // namespace lockstep
