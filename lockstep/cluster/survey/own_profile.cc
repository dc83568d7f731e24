// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/own_profile.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/survey/draft_text.h"
#include "lockstep/cluster/survey/machine_answers.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string checked_name(const std::string& wanted, const ProfileDraft& draft) {
  if (wanted.empty()) {
    auto name = fit_for_a_file(draft.profile.detect.slurm_cluster);
    return name.empty() || name.front() == '.' ? "cluster" : name;
  }
  const bool is_fit = wanted.front() != '.' && wanted.front() != '-' && fit_for_a_file(wanted) == wanted &&
                      !wanted.ends_with(".toml") && wanted != "auto" && wanted != "generic";
  if (is_fit) return wanted;
  throw Error(ErrorKind::kUsage,
              "a profile cannot be called '" + wanted + "', want letters, digits, '-', '_' and '.' alone",
              "the file gets .toml by itself; auto and generic are taken");
}

fs::path file_for(const std::string& name, const ProfileWish& wish, const Environment& env) {
  const auto folder = own_profiles_folder(env);
  if (folder.empty()) {
    if (wish.is_printed) return {};
    throw Error(ErrorKind::kEnvironment, "neither HOME nor XDG_CONFIG_HOME is set, so your profiles have no place",
                "--stdout prints the profile");
  }
  auto file = folder / (name + ".toml");
  std::error_code ignored;
  if (wish.is_printed || wish.is_forced || !fs::exists(file, ignored)) return file;
  throw Error(ErrorKind::kUsage, "'" + file.string() + "' is there already, and is kept",
              "--force writes a new one and keeps the old one as " + name +
                  ".toml.old; --stdout prints; another NAME "
                  "goes beside it");
}

/// Returns the name of another profile of the user that matches this cluster's name.
std::string twin(const std::string& name, const std::string& cluster, const Environment& env) {
  const ProfileLibrary library(env);
  for (const auto& each : library.names()) {
    if (each != name && library.named(each).detect.slurm_cluster == cluster) return each;
  }
  return {};
}

/// Returns the built-in profile that would be used on this machine, unless that is the generic one.
std::string built_in_here(const Environment& env) {
  try {
    const auto name = ProfileLibrary(Environment{}).detected(HostFacts::of_process(env)).name;
    return name == "generic" ? std::string() : name;
  } catch (const Error&) {
    return {};  // Two are as likely: neither is surely for this system.
  }
}

void leave_detection_to(ProfileDraft& draft, const std::string& other) {
  draft.profile.detect.slurm_cluster.clear();
  draft.sources.erase("detect.slurm_cluster");
  draft.gap("detect.slurm_cluster", "left to your profile '" + other + "'; this one is for --cluster");
}

}  // namespace

NewProfile new_profile(const ProfileWish& wish, const Environment& env, const Log& log) {
  auto answers = ask_machine(env);
  auto draft = drafted(answers, wish.partition);
  NewProfile made{.name = checked_name(wish.name, draft)};
  made.file = file_for(made.name, wish, env);
  if (wish.is_live) {
    const auto flags = node_flags(draft);
    log.info("asking a compute node: srun -N1 --time=2 " + joined(flags, " "));
    answers.node = ask_node(env, flags, {"/tmp"});
    draft = drafted(answers, wish.partition);
  }
  made.draft = std::move(draft);
  const auto cluster = made.draft.profile.detect.slurm_cluster;
  made.recognised_as = cluster.empty() ? std::string() : twin(made.name, cluster, env);
  made.built_in = built_in_here(env);
  auto written = made.draft;
  if (!made.recognised_as.empty()) leave_detection_to(written, made.recognised_as);
  made.toml = to_toml(written, made.name);
  return made;
}

std::filesystem::path save(const NewProfile& profile) {
  make_folder(profile.file.parent_path());
  std::error_code ignored;
  fs::path old;
  if (fs::exists(profile.file, ignored)) {
    old = profile.file.string() + ".old";
    write_whole(old, text_of_file(profile.file));
  }
  write_whole(profile.file, profile.toml);
  return old;
}

}  // namespace lockstep
