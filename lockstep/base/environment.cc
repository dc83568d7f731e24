// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/environment.h"

#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

extern char** environ;

namespace lockstep {

Environment Environment::of_process() {
  Map values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(values));
}

std::optional<std::string> Environment::get(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end() || it->second.empty()) return std::nullopt;
  return it->second;
}

std::optional<int> Environment::get_int(const std::string& name) const {
  const auto text = get(name);
  if (!text) return std::nullopt;
  const auto value = parsed_int<int>(*text);
  if (!value) {
    throw Error(ErrorKind::kEnvironment, name + "='" + *text + "' is not a whole number",
                "unset it, or set it to a number");
  }
  return value;
}

std::string expanded(const std::string& text, const Environment& env) {
  const auto value_of = [&](const std::string& name) {
    const auto value = env.get(name);
    if (!value) {
      throw Error(ErrorKind::kRecipe, "'" + text + "' names $" + name + ", which is not set",
                  "set " + name + " in the environment, or write the path out");
    }
    return *value;
  };
  std::string out;
  std::size_t i = 0;
  if (text == "~" || text.starts_with("~/")) {
    out = value_of("HOME");
    i = 1;
  }
  while (i < text.size()) {
    if (text[i] != '$') {
      out += text[i++];
      continue;
    }
    const bool braced = i + 1 < text.size() && text[i + 1] == '{';
    std::size_t from = i + (braced ? 2 : 1);
    std::size_t to = from;
    while (to < text.size() && (std::isalnum(static_cast<unsigned char>(text[to])) || text[to] == '_')) ++to;
    if (to == from || (braced && (to >= text.size() || text[to] != '}'))) {
      out += text[i++];
      continue;
    }
    out += value_of(text.substr(from, to - from));
    i = braced ? to + 1 : to;
  }
  return out;
}

}  // namespace lockstep
