// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/flag/sweep.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostTrials = 1000;

struct Variation {
  std::string key;
  std::vector<std::string> values;
};

std::vector<std::string> values_in(std::string_view list) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : list) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  for (auto& value : values) value = std::string(trimmed(value));
  return values;
}

Variation variation_of(const std::string& text, const std::string& flag) {
  const auto equals = text.find('=');
  Variation found{.key = std::string(trimmed(std::string_view(text).substr(0, equals))), .values = {}};
  if (equals != std::string::npos) found.values = values_in(std::string_view(text).substr(equals + 1));
  const bool has_gap = std::ranges::any_of(found.values, [](const auto& value) { return value.empty(); });
  if (found.key.empty() || found.values.empty() || has_gap) {
    throw Error(ErrorKind::kUsage, flag + ": '" + text + "' varies nothing, want KEY=VALUE,VALUE…",
                "for example " + flag + " optimizer.lr=0.1,0.01");
  }
  return found;
}

std::string folder_name(std::size_t number, std::size_t count, const std::vector<std::string>& sets) {
  const auto width = std::max<std::size_t>(2, std::to_string(count).size());
  std::string name = zero_padded(static_cast<std::int64_t>(number), width);
  for (const auto& set : sets) {
    const auto dot = set.substr(0, set.find('=')).rfind('.');
    name += "-" + set.substr(dot == std::string::npos ? 0 : dot + 1);
  }
  return fit_for_a_file(name).substr(0, 120);
}

/// Removes the quotes that kept a comma in a value. Neither a shell nor a TOML reader removes them.
std::string without_quotes(const std::string& value) {
  const bool has_pair = value.size() > 1 && value.front() == value.back();
  const bool is_quoted = has_pair && (value.front() == '"' || value.front() == '\'');
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

/// Replaces names by values from left to right in one pass, and records the names that it has replaced.
std::string word_of_trial(std::string_view word, const std::map<std::string, std::string>& values,
                          std::set<std::string>& met) {
  std::string out;
  while (!word.empty()) {
    const auto close = word.front() == '{' ? word.find('}') : std::string_view::npos;
    const auto found =
        close == std::string_view::npos ? values.end() : values.find(std::string(word.substr(1, close - 1)));
    if (found == values.end()) {
      out += word.front();
      word.remove_prefix(1);
      continue;
    }
    out += found->second;
    met.insert(found->first);
    word.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace

std::vector<Trial> trials_of(const std::vector<std::string>& sweeps, const std::string& flag) {
  std::vector<std::vector<std::string>> combinations(1);
  std::set<std::string> keys;
  for (const auto& text : sweeps) {
    const auto variation = variation_of(text, flag);
    if (!keys.insert(variation.key).second) {
      throw Error(ErrorKind::kUsage, flag + " varies '" + variation.key + "' twice",
                  "put all of its values into one: " + flag + " " + variation.key + "=VALUE,VALUE");
    }
    if (combinations.size() * variation.values.size() > kMostTrials) {
      throw Error(ErrorKind::kUsage, "the sweep has more than " + std::to_string(kMostTrials) + " trials",
                  "vary fewer settings at once");
    }
    std::vector<std::vector<std::string>> next;
    for (const auto& so_far : combinations) {
      for (const auto& value : variation.values) {
        next.push_back(so_far);
        next.back().push_back(variation.key + "=" + value);
      }
    }
    combinations = std::move(next);
  }
  std::vector<Trial> trials;
  for (auto& sets : combinations) {
    auto name = folder_name(trials.size() + 1, combinations.size(), sets);
    trials.push_back({.sets = std::move(sets), .name = std::move(name)});
  }
  return trials;
}

std::vector<std::string> command_of_trial(const std::vector<std::string>& command, const Trial& trial) {
  std::map<std::string, std::string> values;
  for (const auto& set : trial.sets) {
    const auto equals = set.find('=');
    values[set.substr(0, equals)] = without_quotes(set.substr(equals + 1));
  }
  std::set<std::string> met;
  std::vector<std::string> words;
  words.reserve(command.size());
  for (const auto& word : command) words.push_back(word_of_trial(word, values, met));
  for (const auto& [name, value] : values) {
    if (met.contains(name)) continue;
    throw Error(ErrorKind::kUsage, "--sweep varies '" + name + "', but the command has no {" + name + "}",
                "write {" + name + "} where its value belongs, for example --" + name + " {" + name + "}");
  }
  return words;
}

}  // namespace lockstep
