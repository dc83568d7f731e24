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

/// Software that a job copies to its nodes' local disks as one file, since reading it there file by file makes start-up
/// slow.
struct JobStage {
  StageKind kind = StageKind::kNone;
  std::filesystem::path from{};  ///< The environment's folder, or the program `lockstep-train`.
  std::filesystem::path pack{};  ///< The one file, on a file system that the job's first node sees.
  std::string folder{};          ///< The folder on each node to unpack it in. It may hold $NAME.
  std::string flag{};            ///< The sbatch flag that gives the job the disk of `folder`.
};

/// A folder on a node's local disk, with room for some gigabytes of files. On many clusters `/tmp` is memory and has no
/// such room.
struct NodeDisk {
  std::string folder{};  ///< May hold $USER.
  std::string flag{};    ///< The sbatch flag that gives the job that disk. Empty if it needs none.
};
NodeDisk node_disk(const Profile& profile);

/// Returns the software that `--stage word` names: a conda environment or a venv, by its folder, or, for "lockstep",
/// `trainer` with the libraries that it loads. Nothing is packed yet. The name of the pack has a key that depends on
/// the name, size and modification time of every file. It has no key if `is_here` is false and this machine does not
/// have the folder.
///
/// Throws: Error(kUsage) if the folder is neither an environment nor a venv, or does not exist; Error(kEnvironment) if
///         `trainer` is empty.
struct StageRequest {
  std::string word;
  std::filesystem::path trainer;  ///< For "lockstep".
  std::filesystem::path packs;    ///< The folder that packs are kept in.
  bool is_here = true;            ///< This is the system that the job is for.
};
JobStage job_stage(const StageRequest& request, const Profile& profile);

/// Packs the software into one file, unless that pack exists already. It is written under a temporary name first.
///
/// Returns true if the pack had to be made, false if it existed.
/// Blocks: as long as `tar` takes. Throws: Error(kEnvironment) with tar's message if tar fails.
bool make_pack(const JobStage& stage, const Environment& env);

/// Returns the lines that unpack a pack. They run once on each node, with the folder as $1 and the pack beside it as
/// $1.tar. Nodes of one machine, as in tests, may run them at the same time. The lines in `unpacked` run before the
/// unpacked folder gets its final name. They find it in $made. The lines in `last` run on each node before the last
/// check.
std::vector<std::string> unpack_lines(const std::vector<std::string>& unpacked,
                                      const std::vector<std::string>& last = {});

/// Adds the rest of a shell block that begins with `|| {`. It prints the message `what` and ends the script. `variable`
/// names the folder on the nodes, and `flag` is the option that asked for staging.
void add_stage_failure(ScriptText& out, const std::string& what, const std::string& variable, const std::string& flag);

/// Adds the script's paragraph that sends the pack to all nodes, and unpacks it once on each node. `on_exit` is what
/// the script already does at its end.
void add_staging(ScriptText& out, const JobPlan& plan, const std::string& on_exit);

/// Returns the commands that activate the staged environment in each task.
std::vector<std::string> activation_lines(const JobStage& stage);

/// Returns the program to start, quoted for a shell, if the program itself is staged.
std::optional<std::string> staged_program(const JobStage& stage);

/// Returns a command's first word as found in the staged environment, such as "python" for one in the environment's own
/// bin/.
std::string staged_word(const JobStage& stage, const std::string& word);

}  // namespace lockstep
