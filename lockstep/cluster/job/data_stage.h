// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/job/script_text.h"
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

struct JobPlan;

/// A folder of data that a job takes to its nodes' own disks, or memory, as one file.
struct JobData {
  std::filesystem::path from{};  ///< Empty for none.
  std::filesystem::path pack{};  ///< The one file, on a file system that the job's first node sees.
  std::string inside{};          ///< Its path in a container. If empty, as outside.
  std::string folder{};          ///< The folder on each node to unpack it in. It may hold $NAME.
  std::string flag{};            ///< The sbatch flag that gives the job the disk of `folder`.
};

/// Returns the data that `--stage-data DIR[:INSIDE]` means. Packs nothing. The pack's name holds a key, as
/// job_stage()'s does.
///
/// Throws: Error(kUsage) if `is_here` and there is no such folder, and for an INSIDE that is not an absolute path.
JobData job_data(const std::string& word, const std::filesystem::path& packs, bool is_here, const Profile& profile);

/// Makes the pack if it does not exist yet. Returns, blocks and throws as make_pack() of a JobStage does.
bool make_pack(const JobData& data, const Environment& env);

/// Returns the tasks' path for `path`, which is in the data, such as "$LOCKSTEP_DATA/train".
///
/// Throws: Error(kUsage) if it lies elsewhere.
std::string staged_path(const JobData& data, const std::filesystem::path& path);

/// Adds the paragraph that checks for room, sends the data to all nodes and unpacks them once on each. It also defines
/// `end_data`, which copies results back and clears the nodes. Returns the script's commands at its end, `on_exit`
/// first.
std::string add_data(ScriptText& out, const JobPlan& plan, const std::string& on_exit);

/// If the job has data, calls `end_data` before the job is requeued, which leaves it no time for that.
void add_end_of_data(ScriptText& out, const JobPlan& plan);

}  // namespace lockstep
