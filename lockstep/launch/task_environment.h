// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/task_settings.h"
#include "lockstep/launch/topology.h"

namespace lockstep {

/// The facts about one task apart from its placement.
struct TaskFacts {
  Endpoint master{};
  int threads = 0;                   ///< Cores for this task. 0 if unknown.
  std::filesystem::path caches{};    ///< The folder for its caches. If empty, they stay in their default folders.
  std::filesystem::path nccl_log{};  ///< The folder for NCCL's log. If empty, it stays in its default place.
  std::optional<GpuMaker> gpu_maker{};
  bool starts_ranks = false;  ///< The program is torchrun, or another that starts ranks with its code.
};

/// The variables that a program is started with.
struct TaskEnvironment {
  Environment env{};
  std::vector<std::string> notes{};  ///< One line for each of the user's values that was kept or replaced, with the
                                     ///< reason.
};

/// Returns the variables with the node's devices in the order that the site's profile gives. The order changes only if
/// the variables list all devices by number, as Slurm sets them, or if --gpu-bind=none has removed the lists. Another
/// order is the user's and stays, and so does a list of some of the devices.
Environment with_device_order(const Environment& env, const TaskSettings& settings);

/// Returns the variables that torchrun would set, this task's device, and the site's variables.
///
/// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT follow from the placement. A
/// value that differs is replaced, with a note. Every other variable keeps the user's value, with a note if the site's
/// value differs.
///
/// Throws: Error(kRecipe) if a site's value has a placeholder that cannot be filled in.
TaskEnvironment task_environment(const Placement& at, const Environment& env, const TaskSettings& settings,
                                 const TaskFacts& facts);

/// The cache folders that task_environment() names in variables. They must be created before the task starts.
struct CacheFolders {
  std::vector<std::filesystem::path> shared{};  ///< Of all tasks of the node.
  std::filesystem::path own{};                  ///< Of this task.
};

/// All paths are empty if `facts` has no folder for caches.
CacheFolders cache_folders(const Placement& at, const TaskFacts& facts);

/// Returns the path of a rank's NCCL log. It is in the run folder's logs, or else in the node's folder. Empty if there
/// is neither folder.
std::filesystem::path nccl_log(const std::filesystem::path& run_dir, const std::filesystem::path& node_folder,
                               int rank);

}  // namespace lockstep
