// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/data/source/data_sets.h"
#include "lockstep/recipe/data_request.h"

namespace lockstep {

/// Returns the data set that a request names. It is the data set of a recipe, or the one at a path. For a path, file
/// names and first bytes show the kind.
///
/// Throws: Error(kUsage) if there is no such path or recipe, or the kind is not recognized; Error(kRecipe) for a recipe
/// with synthetic data; as Recipe::load().
DataSettings data_target(const DataRequest& request, const Environment& env, const std::filesystem::path& program);

/// Returns idx, folder, cifar10, cifar100, hdf5, text or csv. Empty if the kind is not recognized.
std::string kind_of_path(const std::filesystem::path& path);

}  // namespace lockstep
