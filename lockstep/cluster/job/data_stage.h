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
  std::filesystem::path from{};  ///< Empty: none.
  std::filesystem::path pack{};  ///< The one file, on a file system that the job's first node sees.
  std::string inside{};          ///< Where a container shows it; empty: where it lies.
  std::string folder{};          ///< Where it is unpacked on each node; may hold $NAME.
  std::string flag{};            ///< Of sbatch: gives the job the disk that `folder` is on.
};

/// What `--stage-data DIR[:INSIDE]` means. Packs nothing; the pack's name holds a key as job_stage()'s does.
///
/// Throws: Error(kUsage) where `is_here` and there is no such folder, and for an INSIDE that is no whole path.
JobData job_data(const std::string& word, const std::filesystem::path& packs, bool is_here, const Profile& profile);

/// Makes the pack where it is not there yet. Returns, blocks and throws as make_pack() of a JobStage does.
bool make_pack(const JobData& data, const Environment& env);

/// `path`, which lies in the data, as the tasks find it: "$LOCKSTEP_DATA/train".
///
/// Throws: Error(kUsage) if it lies elsewhere.
std::string staged_path(const JobData& data, const std::filesystem::path& path);

/// The paragraph that looks for room, sends the data to all nodes and unpacks them once on each, and defines
/// `end_data`, which copies results back and clears the nodes. Returns: what the script does at its end, `on_exit`
/// first.
std::string add_data(ScriptText& out, const JobPlan& plan, const std::string& on_exit);

/// Where the job has data: calls `end_data` before the job is put back, which leaves it no time for that.
void add_end_of_data(ScriptText& out, const JobPlan& plan);

}  // namespace lockstep
