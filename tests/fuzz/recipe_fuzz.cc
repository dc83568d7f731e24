// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/recipe/recipe.h"

/// A text that is accepted as a recipe must give the same recipe after it is written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using lockstep::Recipe;
  try {
    const Recipe recipe = Recipe::parse({reinterpret_cast<const char*>(data), size}, "fuzz.toml", "/", {});
    try {
      LOCKSTEP_ASSERT(Recipe::parse(recipe.to_toml(), "again.toml", "/", {}).digest() == recipe.digest());
    } catch (const lockstep::Error& error) {
      throw lockstep::Error(lockstep::ErrorKind::kBug, std::string("what was written is refused: ") + error.what());
    }
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kRecipe) throw;
  }
  return 0;
}
