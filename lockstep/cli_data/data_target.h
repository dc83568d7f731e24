// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/data/source/data_sets.h"
#include "lockstep/recipe/data_request.h"

namespace lockstep {

/// The data set that a request means: a recipe's, or what lies at a path, its kind told from the names and first bytes
/// found there.
///
/// Throws: Error(kUsage) where there is no such path or recipe, or the kind cannot be told; Error(kRecipe) for a recipe
/// whose data are made up; as Recipe::load().
DataSettings data_target(const DataRequest& request, const Environment& env, const std::filesystem::path& program);

/// idx folder cifar10 cifar100 hdf5 text csv; empty where nothing tells.
std::string kind_of_path(const std::filesystem::path& path);

}  // namespace lockstep
