// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

/// A recipe that comes with Lockstep.
struct BuiltinRecipe {
  std::string name;  ///< "digits"
  std::filesystem::path path;
  std::string about;  ///< The first sentence of the comment that opens it.
};

/// Returns the built-in recipes, by name. They are in the folder where they were installed with `program`, or in the
/// source tree in which `program` was built.
std::vector<BuiltinRecipe> builtin_recipes(const std::filesystem::path& program);

/// Returns the recipe file that `word` names. `word` is a path, or the name of a built-in recipe such as "digits". A
/// file of that name in the working folder comes before the built-in recipe, but a folder of that name does not.
///
/// Throws: Error(kUsage) if a bare name is neither a file nor a built-in recipe, naming the nearest one.
std::filesystem::path recipe_file(const std::string& word, const std::filesystem::path& program);

}  // namespace lockstep
