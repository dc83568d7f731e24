// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/starter.h"

#include <algorithm>

#include "lockstep/recipe/schema.h"
#include "lockstep/recipe/typed_value.h"

namespace lockstep {
namespace {

constexpr std::string_view kSmallest = "[model]\nname = \"mlp\"\n[data]\nkind = \"synthetic\"\n";
constexpr std::size_t kHelpColumn = 30;

std::string starter_line(const SettingRow& row, const Recipe& recipe) {
  const std::string leaf(row.key.substr(row.key.find('.') + 1));
  const bool is_set = recipe.has(row.key) && recipe.origin(row.key).source != SettingSource::kDefault;
  const std::string value = is_set                           ? toml_of(recipe.settings().at(std::string(row.key)).value)
                            : row.type == SettingType::kText ? toml_quoted(row.fallback)
                                                             : std::string(row.fallback);
  std::string line = (is_set ? "" : "# ") + leaf + " = " + value;
  line.resize(std::max(line.size(), kHelpColumn), ' ');
  return line + "  # " + std::string(row.help) + " (" + wanted(row) + ")\n";
}

/// True if the setting of this row has an effect for the kinds that `recipe` has chosen.
bool is_worth_a_line(const SettingRow& row, const Recipe& recipe) {
  if (!row.ties.same_as.empty()) return false;
  const auto selector = selector_of(table_of(row.key));
  return !selector || is_taken_by(row, recipe.text(*selector));
}

}  // namespace

std::string starter_recipe(const std::vector<Override>& overrides) {
  const Recipe recipe = Recipe::parse(kSmallest, "starter", ".", {}, overrides);
  std::string out =
      "# Describe here what this recipe trains, how long it takes, and which result to expect.\n"
      "#\n"
      "# A line that begins with `#` shows a default. Remove the `#` to set it. `lockstep recipe check FILE` checks "
      "the file,\n"
      "# `lockstep recipe show FILE` prints every value with its origin.\n";
  for (const auto& table : setting_tables()) {
    out += "\n[" + table + "]\n";
    for (const auto& row : schema()) {
      if (table_of(row.key) == table && is_worth_a_line(row, recipe)) out += starter_line(row, recipe);
    }
  }
  return out;
}

}  // namespace lockstep
