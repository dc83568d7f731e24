// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/library.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <regex>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/profile/schema.h"
#include "lockstep/cluster/profile/slurm_config.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGeneric = "generic";

ProfileText text_at(const fs::path& file) {
  return {.name = file.stem().string(), .file = file.string(), .toml = text_of_file(file)};
}

std::vector<fs::path> files_of(const fs::path& entry) {
  std::error_code error;
  if (!fs::is_directory(entry, error)) return {entry};
  std::vector<fs::path> files;
  for (const auto& each : fs::directory_iterator(entry, error)) {
    if (each.path().extension() == ".toml") files.push_back(each.path());
  }
  std::ranges::sort(files);
  return files;
}

std::string base_in(const std::vector<RawSetting>& settings) {
  const auto found = std::ranges::find(settings, "base", &RawSetting::key);
  if (found == settings.end()) return {};
  Profile holder;
  set_profile_key(holder, *found);
  return holder.base;
}

// Detection

bool holds_variable(const std::string& rule, const Environment& env) {
  const auto equals = rule.find('=');
  const auto value = env.get(rule.substr(0, equals));
  return value && (equals == std::string::npos || *value == rule.substr(equals + 1));
}

bool holds_file(const std::string& rule, const fs::path& root) {
  const auto equals = rule.find('=');
  const fs::path file = root / fs::path(rule.substr(0, equals)).relative_path();
  std::error_code error;
  if (equals == std::string::npos || !fs::is_regular_file(file, error)) return false;
  try {
    return trimmed(text_of_file(file)) == std::string_view(rule).substr(equals + 1);
  } catch (const Error&) {
    return false;
  }
}

bool holds_path(const std::string& path, const fs::path& root) {
  std::error_code error;
  return fs::exists(root / fs::path(path).relative_path(), error);
}

/// Rates how surely this is the profile's cluster. The result is 3 if a variable or Slurm says so, 2 for a file, 1 for
/// the host's name, and else 0.
int likeness(const ProfileDetect& detect, const HostFacts& here) {
  const auto any = [](const std::vector<std::string>& rules, auto holds) { return std::ranges::any_of(rules, holds); };
  if (!detect.slurm_cluster.empty() && here.slurm_cluster && here.slurm_cluster() == detect.slurm_cluster) return 3;
  if (any(detect.env, [&](const auto& rule) { return holds_variable(rule, here.env); })) return 3;
  if (any(detect.files, [&](const auto& rule) { return holds_file(rule, here.root); })) return 2;
  if (any(detect.paths, [&](const auto& path) { return holds_path(path, here.root); })) return 2;
  return any(detect.hosts, [&](const auto& rule) { return std::regex_search(here.host, std::regex(rule)); }) ? 1 : 0;
}

}  // namespace

HostFacts HostFacts::of_process(const Environment& env) {
  // Slurm is asked for the cluster's name once for all profiles, since it may take a while to answer.
  const auto name = std::make_shared<std::optional<std::string>>();
  return {.env = env, .host = host_name(), .root = "/", .slurm_cluster = [name, env] {
            if (!*name) *name = slurm_cluster_name(env);
            return **name;
          }};
}

std::filesystem::path own_profiles_folder(const Environment& env) {
  if (const auto config = env.get("XDG_CONFIG_HOME")) return fs::path(*config) / "lockstep" / "profiles";
  const auto home = env.get("HOME");
  return home ? fs::path(*home) / ".config" / "lockstep" / "profiles" : fs::path();
}

ProfileLibrary::ProfileLibrary(const Environment& env, std::span<const ProfileText> builtin) {
  for (const auto& text : builtin) add(text);
  std::error_code ignored;
  if (const auto own = own_profiles_folder(env); fs::is_directory(own, ignored)) {
    for (const auto& file : files_of(own)) add_own(text_at(file));
  }
  const auto path = env.get("LOCKSTEP_PROFILE_PATH");
  auto entries = path ? split(*path, ':') : std::vector<std::string>{};
  std::ranges::reverse(entries);  // The first of the list is to be laid last.
  for (const auto& entry : entries) {
    if (entry.empty()) continue;
    std::error_code error;
    if (!fs::exists(entry, error)) {
      throw Error(ErrorKind::kRecipe, "LOCKSTEP_PROFILE_PATH names '" + entry + "', which is not there",
                  "it is a list of profiles and of folders of them, with : between");
    }
    for (const auto& file : files_of(entry)) add_own(text_at(file));
  }
}

void ProfileLibrary::add_own(ProfileText text) {
  own_.insert(text.name);
  add(std::move(text));
}

void ProfileLibrary::add(ProfileText text) { texts_[text.name].push_back(std::move(text)); }

std::vector<std::string> ProfileLibrary::names() const {
  std::vector<std::string> all;
  for (const auto& [name, texts] : texts_) all.push_back(name);
  std::stable_partition(all.begin(), all.end(), [](const auto& name) { return name == kGeneric; });
  return all;
}

void ProfileLibrary::lay(Profile& profile, const std::string& name, std::vector<std::string>& chain) const {
  if (std::ranges::find(chain, name) != chain.end()) {
    throw Error(ErrorKind::kRecipe, "profile '" + name + "' is its own base: " + joined(chain, " on ") + " on " + name,
                "name another `base`");
  }
  chain.push_back(name);
  std::vector<RawSetting> settings;
  std::string base(name == kGeneric ? "" : kGeneric);
  for (const auto& text : texts_.at(name)) {
    auto more = flat_settings({.toml = text.toml, .name = text.file, .folder = {}, .source = SettingSource::kProfile});
    if (const auto named_base = base_in(more); !named_base.empty()) base = named_base;
    settings.insert(settings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  if (!base.empty() && !texts_.contains(base)) {
    const auto near = nearest_name(base, names());
    throw Error(ErrorKind::kRecipe, "profile '" + name + "' starts from '" + base + "', which is not known",
                near ? "did you mean '" + *near + "'?" : "`lockstep profile ls` lists them");
  }
  if (!base.empty()) lay(profile, base, chain);
  // A profile does not inherit its base's description, nor the rules that detect the base's cluster.
  profile.about = {};
  profile.detect = {};
  std::erase_if(profile.origins,
                [](const auto& each) { return each.first.starts_with("about.") || each.first.starts_with("detect."); });
  for (const auto& setting : settings) set_profile_key(profile, setting);
}

Profile ProfileLibrary::named(const std::string& word) const {
  if (word.find('/') != std::string::npos || word.ends_with(".toml")) {
    ProfileLibrary with_file = *this;
    const auto text = text_at(word);
    with_file.add(text);
    return with_file.named(text.name);
  }
  if (!texts_.contains(word)) {
    const auto all = names();
    std::string lower = word;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto near = nearest_name(lower, all);
    throw Error(ErrorKind::kUsage, "unknown cluster '" + word + "', want one of " + joined(all, ", "),
                (near ? "did you mean '" + *near + "'? " : std::string()) +
                    "For a cluster of your own: lockstep profile new, on its login node");
  }
  Profile profile;
  std::vector<std::string> chain;
  lay(profile, word, chain);
  profile.name = word;
  return profile;
}

Profile ProfileLibrary::detected(const HostFacts& here) const {
  int best = 0;
  std::vector<std::string> found;
  for (const auto& name : names()) {
    const int likely = likeness(named(name).detect, here);
    if (likely > best) found.clear();
    if (likely < std::max(best, 1)) continue;
    best = likely;
    found.push_back(name);
  }
  if (found.empty()) return named(std::string(kGeneric));
  if (std::ranges::any_of(found, [&](const auto& name) { return own_.contains(name); })) {
    std::erase_if(found, [&](const auto& name) { return !own_.contains(name); });
  }
  if (found.size() == 1) return named(found.front());
  throw Error(ErrorKind::kUsage, "this host, '" + here.host + "', looks like " + joined(found, " and like "),
              "say which: --cluster " + found.front());
}

Profile ProfileLibrary::chosen(const std::string& word, const HostFacts& here) const {
  return word == "auto" ? detected(here) : named(word);
}

ProfileFindings checked(const Profile& profile) {
  ProfileFindings found{.unverified = profile.about.unverified, .faults = {}};
  for (const auto& key : found.unverified) {
    if (profile_row_of(key).row == nullptr)
      found.faults.push_back("about.unverified names '" + key + "', which is no key");
  }
  const auto count = static_cast<std::size_t>(profile.devices.count);
  const auto agrees = [&](const char* key, std::size_t size) {
    if (size == 0 || size == count) return;
    found.faults.push_back(std::string(key) + " has " + std::to_string(size) + " entries, but devices.count is " +
                           std::to_string(count));
  };
  agrees("devices.cpu_masks", profile.devices.cpu_masks.size());
  agrees("devices.order", profile.devices.order.size());
  agrees("devices.numa", profile.devices.numa.size());
  if (!profile.slurm.partition.empty() && !profile.partitions.contains(profile.slurm.partition)) {
    found.faults.push_back("slurm.partition is '" + profile.slurm.partition + "', but there is no [partition." +
                           profile.slurm.partition + "]");
  }
  if (!profile.slurm.qos.empty() && !profile.qos.contains(profile.slurm.qos)) {
    found.faults.push_back("slurm.qos is '" + profile.slurm.qos + "', but there is no [qos." + profile.slurm.qos + "]");
  }
  if (profile.about.sources.empty()) found.faults.emplace_back("about.sources is empty: say where the facts are from");
  if (profile.about.date.empty()) found.faults.emplace_back("about.date is empty: say when they were looked up");
  return found;
}

}  // namespace lockstep
