// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/slurm_records.h"

#include <algorithm>
#include <cctype>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

/// True if a word begins a new entry, such as "Arch=x86_64" or "TRES=cpu=1". A word such as "#1" continues the value
/// before it.
bool begins_value(std::string_view word) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  if (std::isupper(static_cast<unsigned char>(word.front())) == 0) return false;
  return std::ranges::all_of(word.substr(0, equals),
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '/' || c == ':'; });
}

/// Returns `text` without any "(…)", since these may contain commas.
std::string without_brackets(std::string_view text) {
  std::string out;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) out += c;
    if (c == ')' && depth > 0) --depth;
  }
  return out;
}

constexpr std::int64_t kMostOfAResource = 1'000'000'000;

/// Parses a count such as "4" or "800G", and drops its unit. Returns nothing for a type's name.
std::optional<std::int64_t> gres_count(std::string_view text) {
  if (!text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  const auto count = parsed_int<std::int64_t>(text);
  return count && *count >= 0 && *count <= kMostOfAResource ? count : std::nullopt;
}

}  // namespace

void SlurmRecord::add_line(std::string_view line) {
  std::string key;
  std::string value;
  const auto keep = [&] {
    if (!key.empty()) values_.emplace(key, value);
  };
  for (const auto& word : split(line, ' ')) {
    if (word.empty()) continue;
    if (!begins_value(word)) {
      value += " " + word;
      continue;
    }
    keep();
    const auto equals = word.find('=');
    key = word.substr(0, equals);
    value = word.substr(equals + 1);
  }
  keep();
}

std::string SlurmRecord::text(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->second == "(null)" || found->second == "N/A") return {};
  return found->second;
}

std::optional<std::int64_t> SlurmRecord::number(std::string_view key) const {
  const auto found = parsed_int<std::int64_t>(text(key));
  return found && *found >= 0 && *found <= kMostOfAResource ? found : std::nullopt;
}

std::vector<SlurmRecord> parsed_slurm_records(std::string_view text, std::string_view first_key) {
  std::vector<SlurmRecord> records;
  const std::string start = std::string(first_key) + "=";
  for (const auto& line : split(text, '\n')) {
    if (line.starts_with(start)) records.emplace_back();
    if (!records.empty()) records.back().add_line(trimmed(line));
  }
  return records;
}

std::vector<Gres> parsed_gres(std::string_view text) {
  std::vector<Gres> all;
  if (text == "(null)") return all;
  for (const auto& entry : split(without_brackets(text), ',')) {
    const auto parts = split(trimmed(entry), ':');
    if (parts.front().empty()) continue;
    Gres gres{.name = parts[0], .type = {}};
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (const auto count = gres_count(parts[i])) {
        gres.count = *count;
      } else if (i == 1) {
        gres.type = parts[i];
      }
    }
    all.push_back(std::move(gres));
  }
  return all;
}

std::optional<std::chrono::seconds> parsed_slurm_time(std::string_view text) {
  if (text.find(':') == std::string_view::npos) return std::nullopt;
  const auto seconds = parsed_duration(text);
  if (!seconds || *seconds < 1 || *seconds > 1e9) return std::nullopt;
  return std::chrono::seconds(static_cast<std::int64_t>(*seconds));
}

std::vector<std::string> named_in_list(std::string_view text) {
  std::vector<std::string> names;
  if (text == "ALL" || text == "(null)") return names;
  for (const auto& name : split(text, ',')) {
    if (const auto word = trimmed(name); !word.empty()) names.emplace_back(word);
  }
  return names;
}

}  // namespace lockstep
