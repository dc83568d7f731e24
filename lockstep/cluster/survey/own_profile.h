// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/survey/draft.h"

namespace lockstep {

/// The options of `profile new`.
struct ProfileWish {
  std::string name;       ///< If empty, Slurm's ClusterName.
  std::string partition;  ///< If empty, the partition from chosen_queue().
  bool is_live = false;   ///< Ask a compute node, too.
  bool is_forced = false;
  bool is_printed = false;  ///< No file is written, so none is in the way.
};

/// A profile of this machine that is not written yet.
struct NewProfile {
  std::string name;
  ProfileDraft draft;
  std::string toml;
  std::filesystem::path file;  ///< If it belongs.
  std::string recognised_as;   ///< Another profile of the user's that is for this cluster. Empty if there is none.
  std::string built_in;        ///< The profile for this system that comes with Lockstep. Empty if there is none.
};

/// Asks the machine, and drafts its profile. If another profile of the user matches the same cluster, the new one is
/// only used with --cluster NAME.
///
/// Blocks: if `is_live`, while waiting for a compute node.
/// Throws: Error(kUsage) if the name is not fit for a file, or if the file exists and `is_forced` is not set;
///          Error(kEnvironment) as ask_machine(), drafted() and ask_node() do.
NewProfile new_profile(const ProfileWish& wish, const Environment& env, const Log& log);

/// Writes the file completely or not at all. A file that exists already is kept under its name with ".old" behind it.
///
/// Returns the path of the old file. Empty if there was none. Throws: Error(kIo) if the file cannot be written.
std::filesystem::path save(const NewProfile& profile);

}  // namespace lockstep
