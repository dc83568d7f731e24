// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/profile/library.h"

namespace lockstep {

/// The system that this is, told once, and the others that a person may name instead.
class Site {
 public:
  /// Throws: as ProfileLibrary and its detected().
  explicit Site(const Environment& env) : library_(env), here_(library_.detected(HostFacts::of_process(env))) {}

  /// The profile that `word` names, or of this system where it is "auto". Throws: as ProfileLibrary::named().
  Profile chosen(const std::string& word) const { return word == "auto" ? here_ : library_.named(word); }

  /// A claim: this is the system of that profile.
  bool is_here(const Profile& profile) const { return profile.name == here_.name; }

 private:
  ProfileLibrary library_;
  Profile here_;
};

}  // namespace lockstep
