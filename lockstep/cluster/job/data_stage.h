// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/job/script_text.h"
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

struct JobPlan;

/// A folder of data that a job copies to its nodes' own disks, or memory, as one file.
struct JobData {
  std::filesystem::path from{};  ///< Empty for none.
  std::filesystem::path pack{};  ///< The one file, on a file system that the job's first node sees.
  std::string inside{};          ///< Its path in a container. If empty, as outside.
  std::string folder{};          ///< The folder on each node to unpack it in. It may hold $NAME.
  std::string flag{};            ///< The sbatch flag that gives the job the disk of `folder`.
};

/// Returns the data that `--stage-data DIR[:INSIDE]` names. Nothing is packed yet. The pack's name holds a key, as
/// job_stage()'s does.
///
/// Throws: Error(kUsage) if `is_here` and there is no such folder, and for an INSIDE that is not an absolute path.
JobData job_data(const std::string& word, const std::filesystem::path& packs, bool is_here, const Profile& profile);

/// Makes the pack if it does not exist yet. Returns, blocks and throws as make_pack() of a JobStage does.
bool make_pack(const JobData& data, const Environment& env);

/// Returns the path by which tasks reach a file in the staged data, such as "$LOCKSTEP_DATA/train".
///
/// Throws: Error(kUsage) if `path` is not in the data.
std::string staged_path(const JobData& data, const std::filesystem::path& path);

/// Adds the script's paragraph that checks the free space, sends the data to all nodes, and unpacks them once on each
/// node. The paragraph also defines the shell function `end_data`, which copies results back and removes the data from
/// the nodes. Returns the commands for the script's end, `on_exit` first.
std::string add_data(ScriptText& out, const JobPlan& plan, const std::string& on_exit);

/// If the job has staged data, adds a call of `end_data` before the job is requeued, since there is no time for it
/// afterwards.
void add_end_of_data(ScriptText& out, const JobPlan& plan);

}  // namespace lockstep
