// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/recipe.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <system_error>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/recipe/raw_setting.h"
#include "lockstep/recipe/schema.h"
#include "lockstep/recipe/settle.h"
#include "lockstep/recipe/typed_value.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPython = "python:";

void append(std::vector<RawSetting>& all, std::vector<RawSetting> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

const SettingRow& row_of(std::string_view key) {
  const auto rows = rows_of(key);
  LOCKSTEP_ASSERT(!rows.empty());
  return *rows.front();
}

/// Returns the path of the user's file of settings, if it exists: $XDG_CONFIG_HOME/lockstep/config.toml, by default in
/// ~/.config.
std::vector<RawSetting> settings_of_user_file(const Environment& env) {
  const auto config = env.get("XDG_CONFIG_HOME");
  const auto home = env.get("HOME");
  if (!config && !home) return {};
  const fs::path file = (config ? fs::path(*config) : fs::path(*home) / ".config") / "lockstep" / "config.toml";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  const std::string toml = text_of_file(file);
  return raw_settings(
      {.toml = toml, .name = file.string(), .folder = file.parent_path(), .source = SettingSource::kUserFile});
}

RawSetting raw_setting(const Override& given) {
  return {.key = given.key, .value = raw_value(given.value), .origin = given.origin, .base = {}};
}

std::vector<RawSetting> settings_of_environment(const Environment& env) {
  std::vector<RawSetting> settings;
  const auto text = env.get("LOCKSTEP_SET");
  if (!text) return settings;
  for (const auto& part : split(*text, ';')) {
    if (trimmed(part).empty()) continue;
    const auto equals = part.find('=');
    if (equals == std::string::npos || trimmed(part.substr(0, equals)).empty()) {
      throw Error(ErrorKind::kRecipe, "LOCKSTEP_SET: '" + part + "' sets nothing, want KEY=VALUE",
                  "for example LOCKSTEP_SET='trainer.seed=7;optimizer.lr=0.1'");
    }
    settings.push_back(raw_setting({.key = std::string(trimmed(std::string_view(part).substr(0, equals))),
                                    .value = std::string(trimmed(std::string_view(part).substr(equals + 1))),
                                    .origin = {SettingSource::kEnvironment, "LOCKSTEP_SET"}}));
  }
  return settings;
}

struct Sources {
  SettingsText recipe;
  const Environment& env;
  const std::vector<Override>& overrides;
};

Settled settled_from(const Sources& sources) {
  std::vector<RawSetting> all = settings_of_user_file(sources.env);
  append(all, raw_settings(sources.recipe));
  append(all, settings_of_environment(sources.env));
  const auto first = static_cast<std::ptrdiff_t>(all.size());
  for (const auto& given : sources.overrides) all.push_back(raw_setting(given));
  std::stable_sort(all.begin() + first, all.end(),
                   [](const auto& a, const auto& b) { return a.origin.source < b.origin.source; });
  return settled(all);
}

void require_no_gap(const std::vector<std::string>& gaps, const std::string& name) {
  if (gaps.empty()) return;
  const auto& row = row_of(gaps.front());
  const std::string key(row.key);
  throw Error(ErrorKind::kRecipe,
              name + ": " + key + " has no value, want " + wanted(row) + ": " + std::string(row.help),
              "say --set " + key + "=…, or write it under [" + std::string(table_of(key)) + "] in the recipe");
}

/// Removes characters that would end a comment's line, or are not in the file's encoding.
std::string as_comment(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c >= 0x7F; }, '?');
  return text;
}

template <typename T>
const T& held(const Setting& setting) {
  const T* value = std::get_if<T>(&setting.value);
  LOCKSTEP_ASSERT(value != nullptr);
  return *value;
}

/// Rewrites a path so that it means the same in a recipe in another folder. A path that begins with a variable or ~
/// does not depend on the recipe's folder, so it is unchanged.
std::string portable(const Setting& setting, const std::string& text) {
  if (text.starts_with('$') || text == "~" || text.starts_with("~/")) return text;
  return fs::absolute(setting.base / text).lexically_normal().string();
}

bool is_word(const SettingRow& row, const std::string& text) {
  const auto all = words(row.rule.word);
  return std::ranges::find(all, text) != all.end();
}

bool is_file_named(const SettingRow& row, const std::string& text) {
  const auto names = words(row.rule.names);
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return names_file(name, text); });
}

/// Returns a key as TOML writes it. A name that the user has chosen may need quotes.
std::string key_in_toml(const std::string& key) {
  const auto quoted = [](const std::string& part) {
    const bool is_bare = std::ranges::all_of(
        part, [](unsigned char c) { return (std::isalnum(c) != 0 && c < 0x80) || c == '_' || c == '-'; });
    return is_bare && !part.empty() ? part : toml_quoted(part);
  };
  return joined(map_each(split(key, '.'), quoted), ".");
}

std::string value_in_toml(const SettingRow& row, const Setting& setting) {
  const auto* text = std::get_if<std::string>(&setting.value);
  if (row.type == SettingType::kAny) return toml_of_any(setting.value);
  if (row.type == SettingType::kPath) return toml_quoted(is_word(row, *text) ? *text : portable(setting, *text));
  if (text == nullptr || !is_file_named(row, *text)) return toml_of(setting.value);
  const auto colon = text->find(':') + 1;
  // A Python module is named without a file, and Python searches for it. So it is not rewritten as a path.
  if (text->starts_with(kPython) && !text->substr(0, text->rfind(':')).ends_with(".py")) return toml_quoted(*text);
  return toml_quoted(text->substr(0, colon) + portable(setting, text->substr(colon)));
}

}  // namespace

Override override_of(std::string_view text) {
  const auto equals = text.find('=');
  const auto key = trimmed(text.substr(0, equals));
  if (equals == std::string_view::npos || key.empty()) {
    throw Error(ErrorKind::kUsage, "--set: '" + std::string(text) + "' sets nothing, want KEY=VALUE",
                "for example --set trainer.seed=7; `lockstep recipe ls` lists every setting");
  }
  return {.key = std::string(key),
          .value = std::string(trimmed(text.substr(equals + 1))),
          .origin = {SettingSource::kSet, "--set"}};
}

std::vector<Override> overrides_of(std::span<const std::string> texts) { return map_each(texts, override_of); }

Recipe Recipe::load(const fs::path& path, const Environment& env, const std::vector<Override>& overrides, Gaps gaps) {
  const std::string toml = text_of_file(path);
  const std::string name = path.filename().string();
  Recipe recipe(name, env);
  recipe.settle({.toml = toml, .name = name, .folder = fs::absolute(path).parent_path()}, overrides);
  if (gaps == Gaps::kRefused) require_no_gap(recipe.gaps_, name);
  return recipe;
}

Recipe Recipe::parse(std::string_view toml, const std::string& name, const fs::path& folder, const Environment& env,
                     const std::vector<Override>& overrides) {
  Recipe recipe(name, env);
  recipe.settle({.toml = toml, .name = name, .folder = folder}, overrides);
  require_no_gap(recipe.gaps_, name);
  return recipe;
}

Recipe Recipe::without_file(const Environment& env, const std::vector<Override>& overrides) {
  Recipe recipe("", env);
  recipe.settle({.toml = {}, .name = {}, .folder = {}}, overrides);
  return recipe;
}

Recipe::Recipe(const std::string& file_name, const Environment& env)
    : name_(fs::path(file_name).stem().string()), env_(env) {}

void Recipe::settle(const SettingsText& text, const std::vector<Override>& overrides) {
  Settled settled = settled_from({.recipe = text, .env = env_, .overrides = overrides});
  settings_ = std::move(settled.settings);
  notes_ = std::move(settled.notes);
  gaps_ = std::move(settled.gaps);
}

const Setting& Recipe::setting(std::string_view key) const {
  const auto& row = row_of(key);
  const auto found = settings_.find(row.ties.same_as.empty() ? key : row.ties.same_as);
  LOCKSTEP_ASSERT(found != settings_.end());
  return found->second;
}

bool Recipe::has(std::string_view key) const {
  const auto& row = row_of(key);
  return settings_.contains(row.ties.same_as.empty() ? key : row.ties.same_as);
}

bool Recipe::flag(std::string_view key) const { return held<bool>(setting(key)); }

std::int64_t Recipe::integer(std::string_view key) const { return held<std::int64_t>(setting(key)); }

double Recipe::real(std::string_view key) const {
  const auto& found = setting(key);
  if (const auto* whole = std::get_if<std::int64_t>(&found.value)) return static_cast<double>(*whole);
  return held<double>(found);
}

const std::string& Recipe::text(std::string_view key) const { return held<std::string>(setting(key)); }

std::vector<std::int64_t> Recipe::integers(std::string_view key) const {
  return held<std::vector<std::int64_t>>(setting(key));
}

std::vector<double> Recipe::reals(std::string_view key) const { return held<std::vector<double>>(setting(key)); }

std::vector<std::string> Recipe::texts(std::string_view key) const {
  return has(key) ? held<std::vector<std::string>>(setting(key)) : std::vector<std::string>{};
}

fs::path Recipe::path(std::string_view key) const {
  LOCKSTEP_ASSERT(row_of(key).type == SettingType::kPath);
  return resolved(key, held<std::string>(setting(key)));
}

std::string Recipe::word(std::string_view key) const {
  if (!has(key)) return {};
  const auto& text = held<std::string>(setting(key));
  return is_word(row_of(key), text) ? text : "";
}

std::optional<PythonName> Recipe::python_name(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  const auto& text = held<std::string>(setting(key));
  if (!text.starts_with(kPython)) return std::nullopt;
  const auto colon = text.rfind(':');
  auto source = text.substr(kPython.size(), colon - kPython.size());
  const bool is_file = source.ends_with(".py");
  if (is_file) source = resolved(key, source).string();
  return PythonName{.source = std::move(source), .object = text.substr(colon + 1), .is_file = is_file};
}

std::vector<std::string> Recipe::python_keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, setting] : settings_) {
    const auto* text = std::get_if<std::string>(&setting.value);
    if (text != nullptr && text->starts_with(kPython) && is_file_named(row_of(key), *text)) keys.push_back(key);
  }
  return keys;
}

std::optional<fs::path> Recipe::named_file(std::string_view key) const {
  const auto& text = held<std::string>(setting(key));
  if (!is_file_named(row_of(key), text) || text.starts_with(kPython)) return std::nullopt;
  return resolved(key, text.substr(text.find(':') + 1));
}

fs::path Recipe::resolved(std::string_view key, const std::string& text) const {
  const auto& found = setting(key);
  try {
    return fs::absolute(found.base / expanded(text, env_)).lexically_normal();
  } catch (const Error& error) {
    throw Error(error.kind(), found.origin.where + ": " + std::string(key) + ": " + std::string(error.fact()),
                error.hint());
  }
}

const Origin& Recipe::origin(std::string_view key) const { return setting(key).origin; }

std::vector<std::pair<std::string, const Setting*>> Recipe::settings_of(const SettingRow& row) const {
  std::vector<std::pair<std::string, const Setting*>> found;
  if (!stands_for_many(row)) {
    if (const auto one = settings_.find(row.key); one != settings_.end()) found.emplace_back(one->first, &one->second);
    return found;
  }
  for (const auto& [key, setting] : settings_) {
    if (&row_of(key) == &row) found.emplace_back(key, &setting);
  }
  return found;
}

std::string Recipe::to_toml() const {
  std::string out;
  for (const auto& table : setting_tables()) {
    std::string lines;
    std::string_view last;
    for (const auto& row : schema()) {
      if (table_of(row.key) != table || row.key == last) continue;
      last = row.key;
      for (const auto& [key, setting] : settings_of(row)) {
        lines += key_in_toml(key.substr(table.size() + 1)) + " = " + value_in_toml(row, *setting) + "  # " +
                 as_comment(setting->origin.where) + "\n";
      }
    }
    if (!lines.empty()) out += (out.empty() ? "[" : "\n[") + table + "]\n" + lines;
  }
  return out;
}

std::uint64_t Recipe::digest() const {
  std::string text;
  for (const auto& [key, setting] : settings_) {
    if (row_of(key).role == SettingRole::kDecides) text += key + " = " + toml_of(setting.value) + "\n";
  }
  return xxh3_64(text);
}

}  // namespace lockstep
