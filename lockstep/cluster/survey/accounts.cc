// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/accounts.h"

#include <algorithm>
#include <cctype>

#include "lockstep/base/text.h"
#include "lockstep/cluster/survey/slurm_records.h"

namespace lockstep {
namespace {

void add_once(std::vector<std::string>& names, std::string_view name) {
  if (name.empty() || std::ranges::find(names, name) != names.end()) return;
  names.emplace_back(name);
}

/// Returns the count of one resource in a text such as "cpu=64,gres/gpu=8,node=2". If the resource has several types,
/// the entry without a type is their sum.
std::int64_t tres_count(std::string_view text, std::string_view resource) {
  for (const auto& part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string::npos || std::string_view(part).substr(0, equals) != resource) continue;
    const auto count = parsed_int<std::int64_t>(std::string_view(part).substr(equals + 1));
    if (count && *count > 0 && *count < 1'000'000'000) return *count;
  }
  return 0;
}

bool is_same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

UserAccounts parsed_accounts(std::string_view associations, std::string_view user, std::string_view cluster) {
  UserAccounts found;
  for (const auto& line : split(associations, '\n')) {
    const auto fields = split(trimmed(line), '|');
    if (fields.size() < 3 || !is_same_name(fields[0], cluster)) continue;
    add_once(found.accounts, fields[1]);
    for (const auto& qos : named_in_list(fields[2])) add_once(found.qos, qos);
  }
  const auto name = split(user, '\n').front();
  if (std::ranges::find(found.accounts, trimmed(name)) != found.accounts.end()) found.default_account = trimmed(name);
  return found;
}

std::vector<QosLimits> parsed_qos(std::string_view text) {
  std::vector<QosLimits> all;
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(trimmed(line), '|');
    if (fields.size() < 3 || fields[0].empty()) continue;
    all.push_back({.name = fields[0],
                   .time = parsed_slurm_time(fields[1]),
                   .max_nodes = tres_count(fields[2], "node"),
                   .max_devices = tres_count(fields[2], "gres/gpu")});
  }
  return all;
}

}  // namespace lockstep
