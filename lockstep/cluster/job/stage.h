// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/job/script_text.h"
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

struct JobPlan;

enum class StageKind { kNone, kConda, kVenv, kPrograms };

/// What a job takes to its nodes' own disks as one file, since reading it there file by file is what start-up costs.
struct JobStage {
  StageKind kind = StageKind::kNone;
  std::filesystem::path from{};  ///< The environment's folder, or the program `lockstep-train`.
  std::filesystem::path pack{};  ///< The one file, on a file system that the job's first node sees.
  std::string folder{};          ///< Where it is unpacked on each node; may hold $NAME.
  std::string flag{};            ///< Of sbatch: gives the job the disk that `folder` is on.
};

/// The disk of a node for files of some gigabytes: `/tmp` is memory on many systems.
struct NodeDisk {
  std::string folder{};  ///< May hold $USER.
  std::string flag{};    ///< Of sbatch: gives the job that disk; empty where it needs none.
};
NodeDisk node_disk(const Profile& profile);

/// What `--stage word` means: a conda environment or a venv by its folder, or, for "lockstep", `trainer` with the
/// libraries that it loads. Packs nothing. The pack's name holds a key of every file's name, size and time of change;
/// where there is no such folder here and `is_here` is false, it holds none.
///
/// Throws: Error(kUsage) for a folder that is neither, or is not there; Error(kEnvironment) where `trainer` is empty.
struct StageRequest {
  std::string word;
  std::filesystem::path trainer;  ///< For "lockstep".
  std::filesystem::path packs;    ///< The folder that packs are kept in.
  bool is_here = true;            ///< This is the system that the job is for.
};
JobStage job_stage(const StageRequest& request, const Profile& profile);

/// Makes the pack where it is not there yet, under another name first.
///
/// Returns: whether it had to be made.
/// Blocks: as long as `tar` takes. Throws: Error(kEnvironment) with tar's message.
bool make_pack(const JobStage& stage, const Environment& env);

/// The lines that unpack a pack on a node: run once on each, with the folder as $1 and the pack beside it as $1.tar.
/// Nodes of one machine, as in tests, may do it at the same time. `unpacked` are run on what was unpacked, in $made,
/// before it gets its name; `last` on each node before the last check.
std::vector<std::string> unpack_lines(const std::vector<std::string>& unpacked,
                                      const std::vector<std::string>& last = {});

/// Ends the script with `what`: the rest of a block that begins with `|| {`. `variable` names the folder on the nodes,
/// `flag` the one that asked for it.
void add_stage_failure(ScriptText& out, const std::string& what, const std::string& variable, const std::string& flag);

/// The paragraph that sends the pack to all nodes, and unpacks it once on each. `on_exit` is what the script already
/// does at its end.
void add_staging(ScriptText& out, const JobPlan& plan, const std::string& on_exit);

/// What each task runs to be in the staged environment.
std::vector<std::string> activation_lines(const JobStage& stage);

/// The program to start, for a shell, where it is itself staged.
std::optional<std::string> staged_program(const JobStage& stage);

/// A command's first word as it is found in the staged environment: "python" for one in the environment's own bin/.
std::string staged_word(const JobStage& stage, const std::string& word);

}  // namespace lockstep
