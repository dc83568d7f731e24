// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/task_settings.h"

namespace lockstep {

/// The folder that the tasks of one start share on one node: `lockstep-USER-JOB-NODE` on the node's own disk. It holds
/// caches, and goes with the job. Makes nothing.
std::filesystem::path node_folder(const Placement& at, const Environment& env, const TaskSettings& settings);

/// Makes `path` for this user alone, mode 0700, whoever of several tasks comes first; its parent must be there. A
/// folder of this user's that is there already, in a folder that is private, gets that mode too.
///
/// Throws: Error(kEnvironment) where somebody else owns it, may enter it, or made it a link; Error(kIo) where it cannot
///         be made.
void make_private_folder(const std::filesystem::path& path);

/// Whether a file system of the network lies under `path`.
bool is_on_network(const std::filesystem::path& path);

}  // namespace lockstep
