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

/// One TOML value that is no list; nothing for what no setting takes, such as a date or a table.
using RawScalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

/// A value as a source gave it, before the schema has seen it.
struct RawValue {
  std::variant<RawScalar, std::vector<RawScalar>> data;
  std::string shown;                 ///< For messages: "'abc' (text)", "3.5 (a number)", "a table".
  std::optional<std::string> typed;  ///< What a person typed, where it came from a command line or a variable.
};

/// One `key = value` of any source.
struct RawSetting {
  std::string key;
  RawValue value;
  Origin origin;
  std::filesystem::path base;  ///< What a relative path starts from; empty for the current folder.
};

/// A file of settings, held as text.
struct SettingsText {
  std::string_view toml;
  std::string name;              ///< For messages and origins: "digits.toml".
  std::filesystem::path folder;  ///< What relative paths in it start from.
  SettingSource source = SettingSource::kRecipe;
};

/// The settings in `text`, in no particular order; keys are not checked against the schema, tables are.
///
/// Throws: Error(kRecipe) with file and line for what is not TOML, for a table that is not known, and for more than 1
/// MiB.
std::vector<RawSetting> raw_settings(const SettingsText& text);

/// Every `key = value` in `text`, tables within tables too, by its whole name: "partition.small-g.limits". Neither keys
/// nor tables are checked.
///
/// Throws: Error(kRecipe) as above for what is not TOML.
std::vector<RawSetting> flat_settings(const SettingsText& text);

/// `typed` as a TOML value, or else as plain text.
RawValue raw_value(std::string_view typed);

/// `text` as a TOML string in quotes, with whatever must be escaped.
std::string toml_quoted(std::string_view text);

}  // namespace lockstep
