// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/raw_setting.h"

// toml++ 3.3 has an assertion that fails for some wrong recipes, before it reports the error. The assertion is turned
// off, so that debug builds report the error too.
#define TOML_ASSERT(expr) static_cast<void>(0)
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
  // The text must not be cut in the middle of a UTF-8 character.
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
  throw Error(ErrorKind::kRecipe, where + ": '" + name + "' is in no table, want it in one of " + joined(tables, ", "),
              key ? "did you mean " + *key + "? Put it under [" + std::string(table_of(*key)) + "]"
                  : "`lockstep recipe ls` lists every setting");
}

/// Returns the position after the string that begins at `from`, or after its line if the string is not closed.
std::size_t end_of_string(std::string_view toml, std::size_t from) {
  const char quote = toml[from];
  const std::string mark(3, quote);
  const bool is_long = toml.substr(from).starts_with(mark);
  std::size_t at = from + (is_long ? 3 : 1);
  while (at < toml.size()) {
    if (is_long && toml.substr(at).starts_with(mark)) {
      // Before the last three quotes, up to two quotes may belong to the string.
      return std::min(toml.find_first_not_of(quote, at), at + 5);
    }
    if (!is_long && (toml[at] == quote || toml[at] == '\n')) return at + 1;
    at += toml[at] == '\\' && quote == '"' ? 2 : 1;
  }
  return toml.size();
}

/// Finds the first character outside strings and comments that is not ASCII. TOML has none there, and toml++ 3.3 must
/// not see one. For some, such as é, its test for white space runs into __builtin_unreachable.
std::optional<std::size_t> stray_character(std::string_view toml) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::size_t at = toml.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < toml.size()) {
    if (static_cast<unsigned char>(toml[at]) >= 0x80) return at;
    if (toml[at] == '#') {
      at = std::min(toml.find('\n', at), toml.size());
    } else {
      at = toml[at] == '"' || toml[at] == '\'' ? end_of_string(toml, at) : at + 1;
    }
  }
  return std::nullopt;
}

toml::table parsed(const SettingsText& text) {
  if (text.toml.size() > kLargestFile) {
    throw Error(ErrorKind::kRecipe,
                text.name + ": holds " + human_bytes(text.toml.size()) + ", want at most " + human_bytes(kLargestFile),
                "name a recipe, not a data file");
  }
  if (const auto stray = stray_character(text.toml)) {
    const auto line = 1 + std::count(text.toml.begin(), text.toml.begin() + static_cast<std::ptrdiff_t>(*stray), '\n');
    throw Error(ErrorKind::kRecipe,
                text.name + ":" + std::to_string(line) + ": not TOML: a character outside quotes is not ASCII",
                "put text in plain quotes: \"mlp\"");
  }
  try {
    return toml::parse(text.toml, std::string_view(text.name));
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::kRecipe, place(text, error.source()) + ": not TOML: " + std::string(error.description()),
                "https://toml.io shows the format; put text in quotes");
  }
}

void flatten(const toml::table& table, const std::string& prefix, const SettingsText& text,
             std::vector<RawSetting>& settings) {
  for (const auto& [key, value] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = value.as_table()) {
      flatten(*inner, name + ".", text, settings);
      continue;
    }
    settings.push_back({.key = name,
                        .value = value_of(value),
                        .origin = {.source = text.source, .where = place(text, key.source())},
                        .base = text.folder});
  }
}

}  // namespace

std::vector<RawSetting> flat_settings(const SettingsText& text) {
  std::vector<RawSetting> settings;
  flatten(parsed(text), "", text, settings);
  return settings;
}

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
      const auto inner_name = table_name + "." + std::string(key.str());
      const auto* inner = value.as_table();
      if (inner != nullptr && !rows_of(inner_name + ".NAME").empty()) {
        flatten(*inner, inner_name + ".", text, settings);
        continue;
      }
      settings.push_back({.key = inner_name,
                          .value = value_of(value),
                          .origin = {.source = text.source, .where = place(text, key.source())},
                          .base = text.folder});
    }
  }
  return settings;
}

RawValue raw_value(std::string_view typed) {
  // A text with a line break is not a value, since a second key could follow it.
  for (const std::string& line : {std::string("x = ").append(typed), std::string("x = ").append(toml_quoted(typed))}) {
    if (stray_character(line)) continue;
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
