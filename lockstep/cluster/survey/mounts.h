// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One line of /proc/self/mounts.
struct Mount {
  std::string folder;  ///< "/scratch"
  std::string type;    ///< "lustre"
};

/// The mounts in /proc/self/mounts, in its order.
std::vector<Mount> parsed_mounts(std::string_view text);

/// Returns the type of the file system of `path`. Empty if no mount contains it.
std::string type_at(const std::vector<Mount>& mounts, std::string_view path);

/// True if file systems of this type can be shared by many nodes.
bool is_shared_type(std::string_view type);

/// True if a file system of this type is in memory.
bool is_memory_type(std::string_view type);

}  // namespace lockstep
