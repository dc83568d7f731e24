// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "lockstep/base/file.h"

namespace lockstep {

/// Marks a node's folder as in use. The mark lasts as long as this process, the program that it becomes, or a child has
/// the descriptor. Returns an empty descriptor if the file system has no such locks.
FileDescriptor mark_in_use(const std::filesystem::path& node_folder);

/// Removes node folders that killed jobs of this user have left beside `node_folder`. A folder is removed if it belongs
/// to this user, has not changed for `age`, is not marked, and if its tasks have all ended. The function stops after
/// `limit`, and the next job continues. Returns the number of folders removed.
int remove_left_overs(const std::filesystem::path& node_folder, std::chrono::seconds age = std::chrono::hours(1),
                      std::chrono::milliseconds limit = std::chrono::seconds(1));

}  // namespace lockstep
