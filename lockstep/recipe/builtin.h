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

/// Returns the built-in recipes, by name. They lie where they were installed with `program`, or in the source tree that
/// it was built in.
std::vector<BuiltinRecipe> builtin_recipes(const std::filesystem::path& program);

/// Returns the file that `word` means. That is the path itself, or the built-in recipe of a bare name such as "digits".
/// A file of that name in the working folder wins over the built-in recipe, a folder of that name does not.
///
/// Throws: Error(kUsage) if a bare name is neither a file nor a built-in recipe, naming the nearest one.
std::filesystem::path recipe_file(const std::string& word, const std::filesystem::path& program);

}  // namespace lockstep
