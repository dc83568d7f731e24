// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// One TOML value that is not a list. It is empty for a value that no setting can have, such as a date or a table.
using RawScalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

/// A value as it was read from a source, before it is checked against the schema.
struct RawValue {
  std::variant<RawScalar, std::vector<RawScalar>> data;
  std::string shown;                 ///< The value for messages, such as "'abc' (text)", "3.5 (a number)" or "a
                                     ///< table".
  std::optional<std::string> typed;  ///< The text as typed, if it came from a command line or a variable.
};

/// One `key = value` of any source.
struct RawSetting {
  std::string key;
  RawValue value;
  Origin origin;
  std::filesystem::path base;  ///< The folder that a relative path starts from. Empty for the current folder.
};

/// The text of a file of settings, and its name.
struct SettingsText {
  std::string_view toml;
  std::string name;              ///< The text's name for messages and origins, such as "digits.toml".
  std::filesystem::path folder;  ///< The folder that its relative paths start from.
  SettingSource source = SettingSource::kRecipe;
};

/// Returns the settings in `text`, in no particular order. Tables are checked against the schema, but keys are not.
///
/// Throws: Error(kRecipe) with file and line for text that is not TOML, for an unknown table, and for more than 1 MiB.
std::vector<RawSetting> raw_settings(const SettingsText& text);

/// Returns every `key = value` in `text`, nested tables included, by its full name, such as "partition.small-g.limits".
/// Keys and tables are not checked.
///
/// Throws: Error(kRecipe) with file and line for text that is not TOML.
std::vector<RawSetting> flat_settings(const SettingsText& text);

/// Parses `typed` as a TOML value. If it is none, it is plain text.
RawValue raw_value(std::string_view typed);

/// Returns `text` as a TOML string in quotes, with special characters escaped.
std::string toml_quoted(std::string_view text);

}  // namespace lockstep
