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

/// The type of the file system that `path` lies on. Empty if no mount holds it.
std::string type_at(const std::vector<Mount>& mounts, std::string_view path);

/// True if many nodes may share file systems of this type.
bool is_shared_type(std::string_view type);

/// True if such a file system is memory.
bool is_memory_type(std::string_view type);

}  // namespace lockstep
