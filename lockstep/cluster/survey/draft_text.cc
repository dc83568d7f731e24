// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/draft_text.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/profile/schema.h"
#include "lockstep/cluster/profile/text.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep {
namespace {

/// Splits a key into its table and its name. A partition's name may contain dots.
struct KeyParts {
  std::string section;  ///< "partition", "devices"
  std::string name;     ///< "a.100" of "partition.a.100.limits". Empty if the table has none.
  std::string key;      ///< "limits"
};

KeyParts parts_of(const std::string& key) {
  const auto match = profile_row_of(key);
  LOCKSTEP_ASSERT(match.row != nullptr);
  const auto first = key.find('.');
  if (match.name.empty()) return {.section = key.substr(0, first), .name = {}, .key = key.substr(first + 1)};
  return {.section = key.substr(0, first), .name = match.name, .key = key.substr(key.rfind('.') + 1)};
}

bool is_bare(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return (std::isalnum(c) != 0 && c < 128) || c == '-' || c == '_';
  });
}

std::string header(const KeyParts& parts) {
  if (parts.name.empty()) return "[" + parts.section + "]";
  return "[" + parts.section + "." + (is_bare(parts.name) ? parts.name : toml_quoted(parts.name)) + "]";
}

/// Makes text fit for a comment in TOML, which allows no control characters and only UTF-8.
std::string comment(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 32 || c > 126; }, '?');
  return text;
}

/// Returns the keys to write, including those of the gaps, with tables in the schema's order.
std::vector<std::string> ordered_keys(const ProfileDraft& draft) {
  Profile holder;
  for (const auto& [key, source] : draft.sources) holder.origins[key];
  for (const auto& gap : draft.gaps) holder.origins[gap.key];
  return given_keys(holder);
}

std::string gap_line(const ProfileDraft& draft, const std::string& key) {
  const auto found = std::ranges::find(draft.gaps, key, &DraftGap::key);
  return found == draft.gaps.end() ? std::string() : comment("# not known: " + key + ": " + found->how) + "\n";
}

std::string value_line(const ProfileDraft& draft, const std::string& key) {
  const auto found = draft.sources.find(key);
  if (found == draft.sources.end()) return {};
  auto line = parts_of(key).key + " = " + toml_value(draft.profile, key);
  if (!found->second.empty()) line += "  # " + comment(found->second);
  return line + "\n";
}

void check_that_it_reads(const std::string& toml, const std::string& name) {
  Profile profile;
  for (const auto& setting :
       flat_settings({.toml = toml, .name = name, .folder = {}, .source = SettingSource::kProfile})) {
    set_profile_key(profile, setting);
  }
}

}  // namespace

std::string to_toml(const ProfileDraft& draft, const std::string& name) {
  std::string out =
      comment("# Drafted by `lockstep profile new` on " + draft.profile.about.date +
              ". The comment behind a value says where it is from.") +
      "\n# The file is yours: mend what is wrong, fill in what is not known. `lockstep profile check --live " +
      comment(name) + "` tries it on a compute node.\n";
  std::string table;
  for (const auto& key : ordered_keys(draft)) {
    if (const auto own = header(parts_of(key)); own != table) {
      table = own;
      out += "\n" + table + "\n";
    }
    out += value_line(draft, key) + gap_line(draft, key);
  }
  check_that_it_reads(out, name + ".toml");
  return out;
}

std::string summary(const ProfileDraft& draft) {
  const auto& profile = draft.profile;
  const auto& slurm = profile.slurm;
  const auto cores =
      profile.devices.count > 0 ? profile.sbatch.cores_per_device * profile.devices.count : profile.sbatch.cores;
  const auto& limit = profile.partitions.at(slurm.partition).limits.front();
  std::string out =
      "found: cluster " + profile.detect.slurm_cluster + ", partition " + slurm.partition + " (" + draft.why_partition +
      "): " + counted(draft.nodes, "node") + ", each " +
      (profile.devices.count == 0 ? std::string("no devices") : counted(profile.devices.count, "device")) +
      (profile.devices.name.empty() ? "" : " (" + profile.devices.name + ")") + ", " + counted(cores, "core") +
      " as Slurm counts, " + std::to_string(profile.node.memory_gib) + " GiB; time limit " +
      (limit.time.count() > 0 ? hh_mm_ss(limit.time) : "none") + "\n";
  if (!slurm.account.empty()) out += "found: account " + slurm.account + "\n";
  std::vector<std::string> gaps;
  for (const auto& gap : draft.gaps) gaps.push_back(gap.key);
  if (!gaps.empty()) out += "not known, marked in the file: " + joined(gaps, ", ") + "\n";
  return out;
}

}  // namespace lockstep
