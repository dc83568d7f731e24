// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "lockstep/data/transform/transform.h"

namespace lockstep {

/// Parses a recipe's list. `key` is the setting's name for messages, such as "data.transforms".
///
/// Throws: Error(kRecipe) naming the wrong entry, the nearest known transform and the arguments of that transform.
ImageTransforms parsed_transforms(std::span<const std::string> list, const std::string& key);

}  // namespace lockstep
