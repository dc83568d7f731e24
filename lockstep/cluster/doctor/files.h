// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/system_files.h"
#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Returns the kind of file system of `path`, or of its nearest existing parent, such as "lustre", "nfs4" or "tmpfs".
/// The kernel's table of mounts tells it. Empty if the table has no such mount.
std::string file_system_of(const DoctorContext& of, const std::filesystem::path& path);

/// Returns the device of the file system of `path`, such as "/dev/scratch" or "scratch", from the kernel's table of
/// mounts.
std::string device_of(const DoctorContext& of, const std::filesystem::path& path);

/// True if all nodes see this kind of file system.
bool is_shared(std::string_view file_system);

/// The free space on the file system of a path, or of its nearest existing parent.
struct FileSystemRoom {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;   ///< For this user.
  std::uint64_t total_files = 0;  ///< 0 if the file system does not count them.
  std::uint64_t free_files = 0;
};
std::optional<FileSystemRoom> room_at(const std::filesystem::path& path);

/// Returns the path itself, or its nearest existing parent.
std::filesystem::path nearest_there(const std::filesystem::path& path);

/// True if this process's effective user has these permissions, a combination of R_OK, W_OK and X_OK.
bool may(const std::filesystem::path& path, int mode);

}  // namespace lockstep
