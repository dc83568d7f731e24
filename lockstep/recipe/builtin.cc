// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/builtin.h"

#include <algorithm>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Returns the text of the comment at the beginning of a file, up to its first full stop or colon.
std::string opening_sentence(const std::string& text) {
  std::string sentence;
  for (const auto& line : split(text, '\n')) {
    if (!line.starts_with('#')) break;
    if (!sentence.empty()) sentence += ' ';
    sentence += trimmed(std::string_view(line).substr(1));
  }
  const auto end = std::min(sentence.find(": "), sentence.find(". "));
  return sentence.substr(0, end);
}

}  // namespace

std::vector<BuiltinRecipe> builtin_recipes(const fs::path& program) {
  std::vector<BuiltinRecipe> recipes;
  for (const char* place : {"../share/lockstep/recipes", "../../../recipes"}) {
    std::error_code error;
    const auto folder = (program.parent_path() / place).lexically_normal();
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() != ".toml") continue;
      recipes.push_back({.name = entry.path().stem().string(),
                         .path = entry.path(),
                         .about = opening_sentence(text_of_file(entry.path()))});
    }
    if (!recipes.empty()) break;
  }
  std::sort(recipes.begin(), recipes.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return recipes;
}

fs::path recipe_file(const std::string& word, const fs::path& program) {
  const bool is_path = word.find('/') != std::string::npos || word.ends_with(".toml");
  std::error_code ignored;
  const bool is_folder = fs::is_directory(word, ignored);
  if (is_path || (!is_folder && fs::exists(word, ignored))) return word;
  std::vector<std::string> names;
  for (const auto& recipe : builtin_recipes(program)) {
    if (recipe.name == word) return recipe.path;
    names.push_back(recipe.name);
  }
  const auto near = nearest_name(word, names);
  throw Error(ErrorKind::kUsage,
              "'" + word + (is_folder ? "' is a folder, and no" : "' is neither a file nor a") + " built-in recipe",
              (near ? "did you mean '" + *near + "'? " : "") + "`lockstep recipe ls` lists them");
}

}  // namespace lockstep
