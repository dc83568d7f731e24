// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/task_settings.h"

namespace lockstep {

/// Returns the folder that the tasks of one start share on one node, `lockstep-USER-JOB-NODE` on the node's own disk.
/// It holds caches, and is removed with the job. Creates nothing.
std::filesystem::path node_folder(const Placement& at, const Environment& env, const TaskSettings& settings);

/// Creates `path` for this user alone, mode 0700. Several tasks may call this at once. The parent must exist. If this
/// user has the folder already, and the parent is private, the folder's mode is set to 0700.
///
/// Throws: Error(kEnvironment) if somebody else owns the folder, may enter it, or made it a link; Error(kIo) if the
///         folder cannot be created.
void make_private_folder(const std::filesystem::path& path);

/// True if `path` is on a network file system.
bool is_on_network(const std::filesystem::path& path);

}  // namespace lockstep
