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

/// What was found out about one task besides its placement.
struct TaskFacts {
  Endpoint master{};
  int threads = 0;                   ///< Cores for this task; 0 where that is not known.
  std::filesystem::path caches{};    ///< Where its caches go; empty: where they go by themselves.
  std::filesystem::path nccl_log{};  ///< Where NCCL's log goes; empty: where it goes by itself.
  std::optional<GpuMaker> gpu_maker{};
  bool starts_ranks = false;  ///< The program is torchrun, or another that starts ranks with its code.
};

/// The variables that a program is started with.
struct TaskEnvironment {
  Environment env{};
  std::vector<std::string> notes{};  ///< One line each: what of the user's own was kept or replaced, and why.
};

/// The variables with the node's devices in the site's order, where they show all of them in the order of their
/// numbers, as Slurm does, or where --gpu-bind=none has taken the lists away. An order of the user's own stays, and so
/// does a part of the devices.
Environment with_device_order(const Environment& env, const TaskSettings& settings);

/// What torchrun would set, the device that is this task's, and what the site wants.
///
/// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT are as placement found them:
/// a value that differs is replaced, with a note. Of all others, a value that is there already is kept, with a note
/// where the site wants another one.
///
/// Throws: Error(kRecipe) where a site's value holds a place that there is nothing to fill in for.
TaskEnvironment task_environment(const Placement& at, const Environment& env, const TaskSettings& settings,
                                 const TaskFacts& facts);

/// The folders that task_environment() names for caches, which must be made before the task starts.
struct CacheFolders {
  std::vector<std::filesystem::path> shared{};  ///< Of all tasks of the node.
  std::filesystem::path own{};                  ///< Of this task.
};

/// All empty where `facts` knows no folder for caches.
CacheFolders cache_folders(const Placement& at, const TaskFacts& facts);

/// Where a rank's NCCL log goes: into the run folder's logs, else into the node's folder; empty where there is neither.
std::filesystem::path nccl_log(const std::filesystem::path& run_dir, const std::filesystem::path& node_folder,
                               int rank);

}  // namespace lockstep
