// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// The source of a value, lowest precedence first.
enum class SettingSource { kDefault, kProfile, kUserFile, kRecipe, kEnvironment, kSet, kFlag };

struct Origin {
  SettingSource source = SettingSource::kDefault;
  std::string where;  ///< "digits.toml:7", "--set", "LOCKSTEP_SET", "--devices", "default"
};

using SettingValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                                  std::vector<double>, std::vector<std::string>>;

struct Setting {
  SettingValue value;
  Origin origin;
  std::filesystem::path base;  ///< The folder that a relative path starts from. Empty for the current folder.
};

/// One `key = value` from outside a recipe file, such as `--set trainer.seed=7` or a flag such as `--devices`.
struct Override {
  std::string key;    ///< "trainer.seed"
  std::string value;  ///< As typed. A TOML value, or a bare word for text.
  Origin origin;
};

/// Parses "trainer.seed=7", the value of `--set`.
///
/// Throws: Error(kUsage) if there is no `=`, or nothing before it.
Override override_of(std::string_view text);

/// Parses several such values.
std::vector<Override> overrides_of(std::span<const std::string> texts);

struct SettingsText;
struct SettingRow;

/// A class or function in Python, as in "python:net.py:Net" or "python:torchvision.models:resnet18".
struct PythonName {
  std::string source;  ///< A file's absolute path, or the name of a module.
  std::string object;  ///< A class or function in it: "Net".
  bool is_file = false;
};

/// Whether a required setting may be missing. A run needs every required setting. A command that only shows a recipe
/// does not.
enum class Gaps { kRefused, kAllowed };

/// All settings of a run, typed and checked, each with its origin. It has values only. The code that reads a value
/// decides what it means.
class Recipe {
 public:
  /// Reads a recipe file. Its settings override those of the user's file. LOCKSTEP_SET in `env` overrides the recipe,
  /// and `overrides` override all of these. docs/guide/recipes.md has the rules.
  ///
  /// Throws: Error(kIo) if the file cannot be read; Error(kRecipe) with file and line for bad TOML, an unknown key (the
  ///         nearest known one named), a wrong type, a value out of range, keys that exclude each other in the same
  ///         source, a value that is missing; Error(kUsage) instead if a flag gave the wrong value.
  static Recipe load(const std::filesystem::path& path, const Environment& env,
                     const std::vector<Override>& overrides = {}, Gaps gaps = Gaps::kRefused);
  /// Makes a recipe from text. `name` is for messages. Relative paths begin at `folder`.
  static Recipe parse(std::string_view toml, const std::string& name, const std::filesystem::path& folder,
                      const Environment& env, const std::vector<Override>& overrides = {});

  /// Returns the settings of all sources other than a recipe. It is for a job that runs another program.
  static Recipe without_file(const Environment& env, const std::vector<Override>& overrides);

  /// "digits" for recipes/digits.toml.
  const std::string& name() const { return name_; }

  /// True if the key has a value, its own or a default.
  bool has(std::string_view key) const;
  /// Returns the value. LOCKSTEP_ASSERT: the key is in the schema, has a value, and is of this type.
  bool flag(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;  ///< Also accepts a whole number, and a duration in seconds.
  const std::string& text(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<double> reals(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;  ///< Empty if the key has no value.
  /// Returns a path with $NAME and ~ expanded, and made absolute from the recipe's folder. If --set gave the path, it
  /// begins at the current folder.
  ///
  /// Throws: Error(kRecipe) if the path names a variable that is not set.
  std::filesystem::path path(std::string_view key) const;

  /// Returns a path's value if it is no path but a word that its row of the schema permits, such as "auto". Otherwise
  /// empty.
  std::string word(std::string_view key) const;

  /// Returns the path after the colon of a value such as "script:net.pt", expanded likewise. Nothing if the value has
  /// no such form.
  std::optional<std::filesystem::path> named_file(std::string_view key) const;

  /// Returns the class or function of a value such as "python:net.py:Net"; nothing if the value has another form.
  std::optional<PythonName> python_name(std::string_view key) const;

  /// Returns the keys with such a value.
  std::vector<std::string> python_keys() const;

  /// Returns the origin, such as "digits.toml:7", "--set" or "default". LOCKSTEP_ASSERT: the key has a value.
  const Origin& origin(std::string_view key) const;

  /// Returns every setting that has a value, by key.
  const std::map<std::string, Setting, std::less<>>& settings() const { return settings_; }

  /// Returns all settings that have a value, one per line, with the origin as a comment. The text reads back as the
  /// same recipe.
  std::string to_toml() const;

  /// Returns a digest of the settings that decide what is learnt. It must be the same on every rank of a run. Paths and
  /// origins are left out.
  std::uint64_t digest() const;

  /// Returns notes to show the user once, on keys that a higher source made irrelevant.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Returns the required keys without a value, if Gaps::kAllowed permitted them.
  const std::vector<std::string>& gaps() const { return gaps_; }

 private:
  Recipe(const std::string& file_name, const Environment& env);
  void settle(const SettingsText& text, const std::vector<Override>& overrides);
  const Setting& setting(std::string_view key) const;
  std::vector<std::pair<std::string, const Setting*>> settings_of(const SettingRow& row) const;
  std::filesystem::path resolved(std::string_view key, const std::string& text) const;

  std::string name_;
  Environment env_;
  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<std::string> notes_;
  std::vector<std::string> gaps_;
};

}  // namespace lockstep
