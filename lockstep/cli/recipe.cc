// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/recipe.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/launch/process.h"
#include "lockstep/recipe/builtin.h"
#include "lockstep/recipe/schema.h"
#include "lockstep/recipe/starter.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json text_or_null(std::string_view text) { return text.empty() ? json(nullptr) : json(text); }

// ls

void list_as_json(const std::vector<BuiltinRecipe>& recipes) {
  json files = json::array();
  for (const auto& recipe : recipes) {
    files.push_back({{"name", recipe.name}, {"path", recipe.path.string()}, {"about", recipe.about}});
  }
  json settings = json::array();
  for (const auto& row : schema()) {
    settings.push_back({{"key", row.key},
                        {"default", row.fallback == kMustBeSet ? json(nullptr) : text_or_null(row.fallback)},
                        {"must_be_set", row.fallback == kMustBeSet},
                        {"wanted", wanted(row)},
                        {"unit", text_or_null(row.unit)},
                        {"help", row.help},
                        {"only_for", words(row.ties.only_for)},
                        {"excludes", words(row.ties.excludes)},
                        {"same_as", text_or_null(row.ties.same_as)}});
  }
  print_json({{"recipes", files}, {"settings", settings}});
}

std::string_view short_key(const SettingRow& row) { return row.key.substr(row.key.find('.') + 1); }

std::string help_of(const SettingRow& row) {
  std::string text = std::string(row.help) + " (" + wanted(row) + ")";
  if (!row.ties.only_for.empty()) text += " [" + joined(words(row.ties.only_for), ", ") + " only]";
  return text;
}

/// Prints name, default and help of settings in columns.
std::string setting_lines(const std::string& table, std::size_t columns) {
  constexpr std::size_t kGap = 2;
  constexpr std::size_t kDefault = 13;  // "(must be set)"; a longer one has the help below it.
  std::size_t name = 0;
  for (const auto& row : schema()) name = std::max(name, kGap + short_key(row).size() + kGap);
  std::string out;
  for (const auto& row : schema()) {
    if (table_of(row.key) != table) continue;
    const auto head =
        padded("  " + std::string(short_key(row)), name) + (row.fallback.empty() ? "-" : std::string(row.fallback));
    out += list_row(head, name + kDefault + kGap, help_of(row), columns);
  }
  return out;
}

void list(bool as_json, const Environment& env) {
  const auto recipes = builtin_recipes(this_program());
  if (as_json) return list_as_json(recipes);
  const auto columns = static_cast<std::size_t>(columns_of(env));
  std::string out = "Recipes, for `lockstep train NAME`:\n";
  std::size_t width = 0;
  for (const auto& recipe : recipes) width = std::max(width, recipe.name.size() + 4);
  for (const auto& recipe : recipes) out += list_row("  " + recipe.name, width, recipe.about, columns);
  out += "\nSettings that most recipes set, with --set KEY=VALUE or in the file:\n" + common_settings_table(columns);
  out += "\nAll settings, with their defaults:\n";
  for (const auto& table : setting_tables()) out += "[" + table + "]\n" + setting_lines(table, columns);
  print_text(out);
}

// show

void show(const std::string& word, const std::vector<std::string>& sets, bool as_json, const Context& context) {
  const Recipe recipe =
      Recipe::load(recipe_file(word, this_program()), context.env, overrides_of(sets), Gaps::kAllowed);
  for (const auto& note : recipe.notes()) context.log.info(note);
  if (!as_json) {
    for (const auto& key : recipe.gaps()) context.log.warning(key + " has no value yet; a run needs one");
    return print_text(recipe.to_toml());
  }
  json settings = json::object();
  for (const auto& [key, setting] : recipe.settings()) {
    const json value = std::visit([](const auto& held) { return json(held); }, setting.value);
    settings[key] = {{"value", value}, {"origin", setting.origin.where}};
  }
  print_json(
      {{"name", recipe.name()}, {"settings", settings}, {"notes", recipe.notes()}, {"must_be_set", recipe.gaps()}});
}

// new

void write_new(const std::string& file, const std::vector<std::string>& sets, bool as_json) {
  const std::string text = starter_recipe(overrides_of(sets));
  if (file.empty()) return print_text(text);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(file, ignored))) {
    throw Error(ErrorKind::kUsage, "'" + file + "' exists, want a new name",
                "nothing was written; choose another, or remove it");
  }
  write_whole(file, text);
  if (as_json) return print_json({{"path", fs::absolute(file).string()}});
  print_text("wrote " + file + "; train it with `lockstep train " + file + "`\n");
}

// check

/// Checks each recipe file alone, without this user's settings and environment, and continues after a wrong file.
int check(const std::vector<std::string>& words, bool as_json, const Context& context) {
  int exit_with = 0;
  json files = json::array();
  for (const auto& word : words) {
    try {
      const Recipe recipe = Recipe::load(recipe_file(word, this_program()), {}, {}, Gaps::kAllowed);
      files.push_back({{"path", word}, {"ok", true}, {"error", nullptr}, {"must_be_set", recipe.gaps()}});
      if (as_json) continue;
      const auto open = recipe.gaps().empty() ? "" : ", once " + joined(recipe.gaps(), ", ") + " is set";
      print_text(word + ": ok" + open + "\n");
    } catch (const Error& error) {
      if (exit_with == 0) exit_with = exit_code(error.kind());
      files.push_back({{"path", word}, {"ok", false}, {"error", error.what()}, {"must_be_set", json::array()}});
      if (!as_json) context.log.error(error.what());
    }
  }
  if (as_json) print_json({{"files", files}});
  return exit_with;
}

struct RecipeRequest {
  std::vector<std::string> words;
  std::string word;
  std::vector<std::string> sets;
  bool json = false;
};

void add_sets(CLI::App& command, RecipeRequest& request) {
  command.add_option("--set", request.sets, "Set one setting of the recipe; may be repeated")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
}

}  // namespace

void add_recipe(CLI::App& app, Context& context) {
  auto* recipe = app.add_subcommand("recipe", "List, show, create and check recipes");
  recipe->require_subcommand(1);
  const auto request = std::make_shared<RecipeRequest>();
  const auto add = [&](const char* name, const char* about) {
    auto* command = recipe->add_subcommand(name, about);
    command->add_flag("--json", request->json, "Print one JSON object on standard output");
    return command;
  };

  add("ls", "List the built-in recipes, and every setting with its help")->callback([request, &context] {
    list(request->json, context.env);
  });

  auto* show_command = add("show", "Print every setting of a recipe and where its value comes from");
  show_command->add_option("RECIPE", request->word, "The recipe: a TOML file, or the name of a built-in recipe")
      ->required();
  add_sets(*show_command, *request);
  show_command->callback([request, &context] { show(request->word, request->sets, request->json, context); });

  auto* new_command = add("new", "Write a new recipe, with every setting explained");
  new_command->add_option("FILE", request->word, "The file to write (default: standard output)");
  add_sets(*new_command, *request);
  new_command->callback([request] { write_new(request->word, request->sets, request->json); });

  auto* check_command = add("check", "Check recipes for errors");
  check_command->add_option("RECIPE", request->words, "TOML files or names of built-in recipes")->required();
  check_command->callback([request, &context] { context.exit_code = check(request->words, request->json, context); });

  // The sub-commands would inherit a footer that was set before they were added.
  recipe->footer(examples_section(
      {{"lockstep recipe ls", "List the built-in recipes, and every setting that a recipe may have."},
       {"lockstep recipe show mnist --set optimizer.lr=0.05",
        "Print each setting's value. A comment says which file, flag or default it comes from."},
       {"lockstep recipe new my.toml", "Write a recipe to start from. `lockstep recipe check my.toml` checks it."}},
      static_cast<std::size_t>(columns_of(context.env))));
}

}  // namespace lockstep::cli
