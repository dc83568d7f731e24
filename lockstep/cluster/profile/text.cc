// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/text.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/cluster/profile/schema.h"

namespace lockstep {
namespace {

std::string_view table_of(std::string_view key) {
  const auto dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : key.substr(0, dot);
}

}  // namespace

std::vector<std::string> given_keys(const Profile& profile) {
  const auto rows = profile_schema();
  std::map<std::string_view, std::size_t> first_row;
  for (std::size_t i = 0; i < rows.size(); ++i) first_row.emplace(table_of(rows[i].key), i);
  const auto rank = [&](const std::string& key) {
    const auto* row = profile_row_of(key).row;
    LOCKSTEP_ASSERT(row != nullptr);
    return std::tuple(first_row.at(table_of(row->key)), std::string(table_of(key)),
                      static_cast<std::size_t>(row - rows.data()), key);
  };
  std::vector<std::string> keys;
  for (const auto& [key, origin] : profile.origins) keys.push_back(key);
  std::ranges::sort(keys, {}, rank);
  return keys;
}

std::string toml_value(const Profile& profile, const std::string& key) {
  Profile copy = profile;
  const auto match = profile_row_of(key);
  LOCKSTEP_ASSERT(match.row != nullptr);
  return toml_of(match.row->slot(copy, match.name));
}

std::string to_toml(const Profile& profile, bool with_origin) {
  std::string out;
  std::string_view table;
  const auto& doubtful = profile.about.unverified;
  for (const auto& key : given_keys(profile)) {
    if (const auto own = table_of(key); own != table) {
      table = own;
      out.append(out.empty() ? "[" : "\n[").append(table).append("]\n");
    }
    std::string line = key.substr(table.empty() ? 0 : table.size() + 1) + " = " + toml_value(profile, key);
    const bool is_doubtful = std::ranges::find(doubtful, key) != doubtful.end();
    if (with_origin) line += "  # " + profile.origin(key);
    if (is_doubtful) line += with_origin ? ", unverified" : "  # unverified";
    out += line + "\n";
  }
  return out;
}

}  // namespace lockstep
