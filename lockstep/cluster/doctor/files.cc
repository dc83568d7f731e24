// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/files.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 14> kShared = {"lustre", "nfs",   "nfs4",   "gpfs",          "beegfs",
                                                      "ceph",   "panfs", "cifs",   "smb3",          "orangefs",
                                                      "pvfs2",  "afs",   "wekafs", "fuse.glusterfs"};

/// In the table of mounts the kernel writes a space in a path as \040. This reverses it.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_escape = text[at] == '\\' && at + 3 < text.size() && text[at + 1] >= '0' && text[at + 1] <= '3';
    if (!is_escape) {
      plain += text[at];
      continue;
    }
    plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 + (text[at + 3] - '0'));
    at += 3;
  }
  return plain;
}

bool lies_under(const std::string& path, const std::string& folder) {
  if (folder == "/" || path == folder) return true;
  return path.starts_with(folder) && path[folder.size()] == '/';
}

struct Mount {
  std::string kind;
  std::string device;
};

/// Returns the mount that holds `path`, from the kernel's table. Empty if the table has no such mount.
Mount mount_of(const DoctorContext& of, const fs::path& path) {
  const std::string wanted = path.lexically_normal().string();
  std::string best;
  Mount mount;
  for (const auto& line : split(text_or_nothing(of.at_root("/proc/self/mountinfo")), '\n')) {
    // Source: proc(5): the mount point is the fifth field; the type follows a lone dash, after fields of any number.
    const auto fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || dash == fields.end() || dash + 1 == fields.end()) continue;
    const auto point = unescaped(fields[4]);
    // If several file systems are mounted at one point, the last one hides the others.
    if (!lies_under(wanted, point) || point.size() < best.size()) continue;
    best = point;
    mount = {.kind = *(dash + 1), .device = dash + 2 != fields.end() ? unescaped(*(dash + 2)) : std::string()};
  }
  return mount;
}

}  // namespace

std::string file_system_of(const DoctorContext& of, const fs::path& path) { return mount_of(of, path).kind; }

std::string device_of(const DoctorContext& of, const fs::path& path) { return mount_of(of, path).device; }

bool is_shared(std::string_view file_system) {
  return std::find(kShared.begin(), kShared.end(), file_system) != kShared.end();
}

fs::path nearest_there(const fs::path& path) {
  std::error_code none;
  fs::path at = path;
  while (!fs::exists(at, none) && at.has_relative_path()) at = at.parent_path();
  return at.empty() ? "." : at;
}

std::optional<FileSystemRoom> room_at(const fs::path& path) {
  struct statvfs found {};
  if (::statvfs(nearest_there(path).c_str(), &found) != 0) return std::nullopt;
  return FileSystemRoom{.total_bytes = std::uint64_t{found.f_blocks} * found.f_frsize,
                        .free_bytes = std::uint64_t{found.f_bavail} * found.f_frsize,
                        .total_files = found.f_files,
                        .free_files = found.f_favail};
}

bool may(const fs::path& path, int mode) { return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0; }

}  // namespace lockstep
