// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/survey/draft.h"

namespace lockstep {

/// What a person asked `profile new` for.
struct ProfileWish {
  std::string name;       ///< Empty: Slurm's ClusterName.
  std::string partition;  ///< Empty: as chosen_queue() says.
  bool is_live = false;   ///< Ask a compute node, too.
  bool is_forced = false;
  bool is_printed = false;  ///< No file is written, so none is in the way.
};

/// A profile of this machine, not yet written.
struct NewProfile {
  std::string name;
  ProfileDraft draft;
  std::string toml;
  std::filesystem::path file;  ///< Where it belongs.
  std::string recognised_as;   ///< Another profile of the user's that is for this cluster; empty where there is none.
  std::string built_in;        ///< The profile for this system that comes with Lockstep; empty where there is none.
};

/// Asks the machine, and drafts its profile. Where another profile of the user's goes by the same cluster, this one is
/// for --cluster NAME alone.
///
/// Blocks:  while a compute node is waited for, where that is wished.
/// Throws:  Error(kUsage) for a name that is no file's, and where the file is there and `is_forced` is not set;
///          Error(kEnvironment) as ask_machine(), drafted() and ask_node() do.
NewProfile new_profile(const ProfileWish& wish, const Environment& env, const Log& log);

/// Writes the file, whole or not at all. One that is there is kept with ".old" behind its name.
///
/// Returns: where the old one is; empty where there was none.
/// Throws:  Error(kIo).
std::filesystem::path save(const NewProfile& profile);

}  // namespace lockstep
