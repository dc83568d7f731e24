// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class SettingType { kFlag, kInteger, kReal, kText, kPath, kDuration, kIntegers, kReals, kTexts, kAny };

/// Limits of a value beyond its type. Each number of a list must meet them.
struct SettingRule {
  std::string_view wanted = {};           ///< Completes "want …" and the help, such as "at least 1".
  bool (*holds)(double value) = nullptr;  ///< Numbers only.
  std::string_view names = {};  ///< Text only. The allowed words, separated by spaces, or "kind:FILE". Empty for any.
  std::string_view word = {};   ///< Paths only. A word that stands for no path. A file of that name is "./word".
  std::size_t min_length = 0;   ///< Lists only.
  std::size_t max_length = std::numeric_limits<std::size_t>::max();
};

/// True if `name` has a form such as "script:FILE" or "python:FILE:CLASS" and `text` matches it: "script:net.pt",
/// "python:net.py:Net".
bool names_file(std::string_view name, std::string_view text);

/// How a setting depends on other settings. Keys in a list are separated by spaces.
struct SettingTies {
  std::string_view only_for = {};   ///< Values of its table's selector that take it. Empty for all.
  std::string_view excludes = {};   ///< Keys that cannot be set beside it.
  std::string_view yields_to = {};  ///< Keys that, once set, take away its default.
  std::string_view same_as = {};    ///< The key that this one is another name for. It then has no other properties.
};

/// The role of a setting. Either it decides what is learnt, and must be the same on every rank, or it only decides
/// where and how fast a run is.
enum class SettingRole { kDecides, kAside };

inline constexpr std::string_view kMustBeSet = "(must be set)";

/// One row of the table of settings. If a key's default depends on the selector, the key has a row for each of its
/// values. A key that ends in ".NAME" stands for any number of keys, whose names the user chooses.
struct SettingRow {
  std::string_view key;  ///< "trainer.seed"
  SettingType type = SettingType::kText;
  std::string_view fallback = {};  ///< The default as TOML, or kMustBeSet. Empty for none.
  SettingRule rule = {};
  std::string_view unit = {};
  std::string_view help = {};
  SettingTies ties = {};
  SettingRole role = SettingRole::kDecides;
};

/// Returns the table of all settings, in the order of the help. A key that is not in the table is an error in a recipe.
std::span<const SettingRow> schema();

/// Returns the keys that most recipes set. Help shows them first.
std::span<const std::string_view> common_settings();

/// Returns the rows of one key. Empty if there is no such key.
std::vector<const SettingRow*> rows_of(std::string_view key);

/// True for a row such as "model.args.NAME", whose last word stands for any name.
bool stands_for_many(const SettingRow& row);

/// Returns the tables, "model", "data" and so on, in the schema's order.
std::vector<std::string> setting_tables();

/// Returns the key whose value decides which other keys of `table` apply, such as "model.name" or "data.kind". Nothing
/// if there is none.
std::optional<std::string> selector_of(std::string_view table);

/// "trainer" of "trainer.seed".
std::string_view table_of(std::string_view key);

/// True if `row` applies if the selector of its table has the value `selected`.
bool is_taken_by(const SettingRow& row, std::string_view selected);

/// Returns the key that a person most likely meant by `key`. The same word in another table comes first, then the
/// nearest spelling.
std::optional<std::string> nearest_setting(std::string_view key);

/// Describes a valid value of this row, such as "a whole number of steps, at least 1".
std::string wanted(const SettingRow& row);

/// Splits a list at its spaces.
std::vector<std::string> words(std::string_view list);

}  // namespace lockstep
