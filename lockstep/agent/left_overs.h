// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "lockstep/base/file.h"

namespace lockstep {

/// Marks a node's folder as in use, for as long as this process, what it becomes, or a child that it starts has the
/// descriptor. Returns an empty one if the file system has no such marks.
FileDescriptor mark_in_use(const std::filesystem::path& node_folder);

/// Removes the folders of this user's earlier jobs beside `node_folder`, which a job that was killed could not remove:
/// those that are this user's alone, that nothing has entered or left for `age`, that nobody has marked, and whose
/// tasks have all ended. Stops after `limit`; the next job goes on. Returns how many it removed.
int remove_left_overs(const std::filesystem::path& node_folder, std::chrono::seconds age = std::chrono::hours(1),
                      std::chrono::milliseconds limit = std::chrono::seconds(1));

}  // namespace lockstep
