// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/raw_setting.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/recipe/schema.h"

namespace lockstep {
namespace {

constexpr std::size_t kLargestFile = 1U << 20U;
constexpr std::size_t kLongestShown = 60;

RawScalar scalar_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  return std::monostate{};
}

std::string cut(std::string text) {
  if (text.size() <= kLongestShown) return text;
  std::size_t end = kLongestShown;
  // Not in the middle of a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

template <typename Node>
std::string streamed(const Node& node) {
  std::ostringstream out;
  out << node;
  return cut(out.str());
}

std::string shown(const toml::node& node) {
  if (const auto* value = node.as_string()) return "'" + cut(value->get()) + "' (text)";
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  if (const auto* value = node.as_floating_point()) return shortest(value->get()) + " (a number)";
  if (const auto* value = node.as_date()) return streamed(*value) + " (a date)";
  if (const auto* value = node.as_time()) return streamed(*value) + " (a time of day, for want of quotes)";
  if (const auto* value = node.as_date_time()) return streamed(*value) + " (a date and time)";
  if (node.is_table()) return "a table";
  std::string items;
  for (const auto& item : *node.as_array()) {
    if (items.size() > kLongestShown) break;
    items += (items.empty() ? "" : ", ") + (item.is_array() ? "a list" : shown(item));
  }
  return "[" + cut(items) + "] (a list)";
}

RawValue value_of(const toml::node& node) {
  const auto* list = node.as_array();
  if (list == nullptr) return {.data = scalar_of(node), .shown = shown(node), .typed = std::nullopt};
  std::vector<RawScalar> items;
  items.reserve(list->size());
  for (const auto& item : *list) items.push_back(scalar_of(item));
  return {.data = std::move(items), .shown = shown(node), .typed = std::nullopt};
}

std::string place(const SettingsText& text, const toml::source_region& region) {
  return text.name + ":" + std::to_string(region.begin.line);
}

[[noreturn]] void refuse_table(const std::string& where, const std::string& name, bool is_table) {
  const auto tables = setting_tables();
  const auto near = nearest_name(name, tables);
  const auto key = nearest_setting(name);
  if (is_table) {
    throw Error(ErrorKind::kRecipe, where + ": unknown table [" + name + "], want one of " + joined(tables, ", "),
                near ? "did you mean [" + *near + "]?" : "`lockstep recipe ls` lists every setting");
  }
  throw Error(ErrorKind::kRecipe,
              where + ": '" + name + "' stands in no table, want it in one of " + joined(tables, ", "),
              key ? "did you mean " + *key + "? Put it under [" + std::string(table_of(*key)) + "]"
                  : "`lockstep recipe ls` lists every setting");
}

toml::table parsed(const SettingsText& text) {
  if (text.toml.size() > kLargestFile) {
    throw Error(ErrorKind::kRecipe,
                text.name + ": holds " + human_bytes(text.toml.size()) + ", want at most " + human_bytes(kLargestFile),
                "name a recipe, not a data file");
  }
  try {
    return toml::parse(text.toml, std::string_view(text.name));
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::kRecipe, place(text, error.source()) + ": not TOML: " + std::string(error.description()),
                "https://toml.io shows the format; text stands in quotes");
  }
}

}  // namespace

std::vector<RawSetting> raw_settings(const SettingsText& text) {
  const toml::table root = parsed(text);
  const auto known = setting_tables();
  std::vector<RawSetting> settings;
  for (const auto& [name, node] : root) {
    const std::string table_name(name.str());
    const auto* table = node.as_table();
    if (table == nullptr || std::find(known.begin(), known.end(), table_name) == known.end()) {
      refuse_table(place(text, name.source()), table_name, table != nullptr);
    }
    for (const auto& [key, value] : *table) {
      settings.push_back({.key = table_name + "." + std::string(key.str()),
                          .value = value_of(value),
                          .origin = {.source = text.source, .where = place(text, key.source())},
                          .base = text.folder});
    }
  }
  return settings;
}

RawValue raw_value(std::string_view typed) {
  // A line break could smuggle in a second key, and then the text is no value.
  for (const std::string& line : {std::string("x = ").append(typed), std::string("x = ").append(toml_quoted(typed))}) {
    try {
      const toml::table table = toml::parse(line);
      if (table.size() != 1) continue;
      RawValue value = value_of(table.begin()->second);
      value.typed = typed;
      return value;
    } catch (const toml::parse_error&) {
      continue;
    }
  }
  return {.data = RawScalar(std::monostate{}), .shown = "text that is not UTF-8", .typed = std::nullopt};
}

std::string toml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append(1, '\\').append(1, c);
    } else if (byte < 0x20 || byte == 0x7F) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", byte);
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace lockstep
