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

/// The kind of file system that `path`, or the nearest parent that is there, lies on: "lustre", "nfs4", "tmpfs"; by
/// the kernel's table of mounts. Empty where that does not tell.
std::string file_system_of(const DoctorContext& of, const std::filesystem::path& path);

/// The device of that mount, as the kernel has it: "/dev/scratch" or "scratch".
std::string device_of(const DoctorContext& of, const std::filesystem::path& path);

/// A claim: all nodes see this kind of file system.
bool is_shared(std::string_view file_system);

/// Room on the file system of a path, or of its nearest parent that is there.
struct FileSystemRoom {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;   ///< For this user.
  std::uint64_t total_files = 0;  ///< 0 where the file system does not count them.
  std::uint64_t free_files = 0;
};
std::optional<FileSystemRoom> room_at(const std::filesystem::path& path);

/// The path itself, or its nearest parent that is there.
std::filesystem::path nearest_there(const std::filesystem::path& path);

/// A claim: this process, by its effective user, may do that: R_OK, W_OK or X_OK together.
bool may(const std::filesystem::path& path, int mode);

}  // namespace lockstep
