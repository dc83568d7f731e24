// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/pickle_value.h"

#include <array>

namespace lockstep {

using Kind = PickleKind;

std::string pickle_text(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out;
  for (const char c : text.substr(0, kMost)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text.size() > kMost ? out + "..." : out;
}

std::optional<std::string> latin1_of(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      out += text[i];
      continue;
    }
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if ((byte & 0xfcU) != 0xc0 || (next & 0xc0U) != 0x80) return std::nullopt;
    out += static_cast<char>((byte & 3U) << 6U | (next & 0x3fU));
    ++i;
  }
  return out;
}

std::string pickle_kind(const PickleValue& value) {
  constexpr std::array<std::string_view, 14> kNames = {
      "None",   "a truth value", "a number", "a large number", "a number",  "text",       "bytes",
      "a list", "a tuple",       "a set",    "a dict",         "the name ", "a call of ", "a reference to data"};
  std::string name(kNames.at(static_cast<std::size_t>(value.kind)));
  if (value.kind == Kind::kGlobal) name += pickle_text(value.text);
  if (value.kind == Kind::kCall) name += pickle_text(value.callee->text);
  return name;
}

std::optional<PickleEntries> pickle_entries(const PickleValue& value) {
  PickleEntries entries;
  if (value.is_call_of("collections.OrderedDict")) {
    // In a pickle from Python 2, the items of an OrderedDict are arguments of the call.
    if (const PickleValue* pairs = pickle_part(*value.arguments, 0)) {
      for (const PickleValue* pair : pairs->items) {
        const PickleValue* key = pickle_part(*pair, 0);
        const PickleValue* item = pickle_part(*pair, 1);
        if (item != nullptr) entries.emplace_back(key, item);
      }
    }
  } else if (value.kind != Kind::kDict && !value.is_call_of("collections.defaultdict") &&
             !value.is_call_of("collections.Counter")) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) entries.emplace_back(value.items[i], value.items[i + 1]);
  return entries;
}

const PickleValue* pickle_entry(const PickleValue& value, std::string_view key) {
  const PickleValue* found = nullptr;
  for (const auto& [each, item] : pickle_entries(value).value_or(PickleEntries{})) {
    if (each->is_text() && each->text == key) found = item;
  }
  return found;
}

const PickleValue* pickle_part(const PickleValue& value, std::size_t i) {
  const PickleValue& list = value.kind == Kind::kCall ? *value.arguments : value;
  if (list.kind != Kind::kTuple && list.kind != Kind::kList) return nullptr;
  return i < list.items.size() ? list.items[i] : nullptr;
}

}  // namespace lockstep
