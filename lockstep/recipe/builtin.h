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

/// The recipes that lie where they were installed with `program`, or in the source tree that it was built in; by name.
std::vector<BuiltinRecipe> builtin_recipes(const std::filesystem::path& program);

/// The file that `word` means: a built-in recipe where it is a bare name such as "digits", else the path itself.
///
/// Throws: Error(kUsage) where a bare name is neither a file nor a built-in recipe, naming the nearest one.
std::filesystem::path recipe_file(const std::string& word, const std::filesystem::path& program);

}  // namespace lockstep
