// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

/// A profile's file, as text.
struct ProfileText {
  std::string name;  ///< "lumi-g"
  std::string file;  ///< The file for messages and origins, such as "lumi-g.toml" or "/etc/lockstep/lumi-g.toml".
  std::string toml;
};

/// The profiles that are part of this program, from the source tree's profiles/.
std::span<const ProfileText> builtin_profiles();

/// Facts about this host that identify the cluster.
struct HostFacts {
  Environment env;
  std::string host;
  std::filesystem::path root = "/";              ///< The folder that stands for "/" in the files and paths of `detect`.
  std::function<std::string()> slurm_cluster{};  ///< Finds Slurm's ClusterName. Asked only if a profile goes by it.

  static HostFacts of_process(const Environment& env);
};

/// Returns the folder of a user's own profiles, $XDG_CONFIG_HOME/lockstep/profiles, by default in ~/.config. Empty if
/// neither variable is set.
std::filesystem::path own_profiles_folder(const Environment& env);

/// All profiles that this user can name. The files in own_profiles_folder() override the built-in profiles. The files
/// that LOCKSTEP_PROFILE_PATH names override both.
class ProfileLibrary {
 public:
  /// LOCKSTEP_PROFILE_PATH is a list of files and folders with `:` between them. An earlier entry overrides a later
  /// one. The keys of a file NAME.toml override those of the profile NAME. If there is no such profile, the file makes
  /// a new one, based on the profile that its `base` names.
  ///
  /// Throws: Error(kRecipe) for an entry that does not exist; Error(kIo) for a file that cannot be read.
  explicit ProfileLibrary(const Environment& env, std::span<const ProfileText> builtin = builtin_profiles());

  /// Sorted, generic first.
  std::vector<std::string> names() const;

  /// Returns the profile of that name. `word` is a file if it has a `/` or ends in ".toml".
  ///
  /// Throws: Error(kUsage) naming the nearest profile for an unknown name; Error(kRecipe) with file and line for an
  ///         invalid file; Error(kIo) for a file that cannot be read.
  Profile named(const std::string& word) const;

  /// Returns the profile of this cluster. Variables or Slurm's name for it decide first, then files and paths, then the
  /// host's name. If no profile matches, it is `generic`. If two match equally well, the user's own profile is taken.
  ///
  /// Throws: Error(kUsage) naming both if two profiles match equally well, and both or neither are the user's own.
  Profile detected(const HostFacts& here) const;

  /// Returns named(word), or detected() if `word` is "auto".
  Profile chosen(const std::string& word, const HostFacts& here) const;

 private:
  void add(ProfileText text);
  void add_own(ProfileText text);
  void lay(Profile& profile, const std::string& name, std::vector<std::string>& chain) const;

  std::map<std::string, std::vector<ProfileText>, std::less<>> texts_;  ///< By profile. Later ones override earlier
                                                                        ///< ones.
  std::set<std::string, std::less<>> own_;  ///< Profiles that a file of the user's has a part in.
};

/// Returns lines on a profile that its author should check. Keys in `about.unverified` come first, then numbers that
/// contradict each other.
struct ProfileFindings {
  std::vector<std::string> unverified;
  std::vector<std::string> faults;
};
ProfileFindings checked(const Profile& profile);

/// Finds this system's profile once and keeps it. It also returns any other profile that a person names.
class ProfileChooser {
 public:
  /// Throws: as the constructor of ProfileLibrary, and as detected().
  explicit ProfileChooser(const Environment& env)
      : library_(env), here_(library_.detected(HostFacts::of_process(env))) {}

  /// Returns the profile that `word` names, or this cluster's if it is "auto". Throws: as ProfileLibrary::named().
  Profile chosen(const std::string& word) const { return word == "auto" ? here_ : library_.named(word); }

  /// True if this machine belongs to the cluster of that profile.
  bool is_here(const Profile& profile) const { return profile.name == here_.name; }

 private:
  ProfileLibrary library_;
  Profile here_;
};

}  // namespace lockstep
