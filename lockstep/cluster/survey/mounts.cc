// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/mounts.h"

#include <algorithm>
#include <array>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 16> kShared = {
    "lustre", "nfs",      "nfs4",  "gpfs", "beegfs", "beegfs_nodev",   "ceph",        "panfs",
    "cifs",   "orangefs", "pvfs2", "afs",  "wekafs", "fuse.glusterfs", "fuse.vastfs", "dvs"};

bool is_octal(char c) { return c >= '0' && c <= '7'; }

/// In the table of mounts the kernel writes a space in a path as \040. This reverses it.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_escape = text[at] == '\\' && at + 3 < text.size() && text[at + 1] >= '0' && text[at + 1] <= '3' &&
                           is_octal(text[at + 2]) && is_octal(text[at + 3]);
    if (!is_escape) {
      plain += text[at];
      continue;
    }
    plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 + (text[at + 3] - '0'));
    at += 3;
  }
  return plain;
}

bool lies_under(std::string_view path, std::string_view folder) {
  if (folder == "/" || path == folder) return true;
  return path.starts_with(folder) && path[folder.size()] == '/';
}

}  // namespace

std::vector<Mount> parsed_mounts(std::string_view text) {
  std::vector<Mount> mounts;
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(line, ' ');
    if (fields.size() < 4 || !fields[1].starts_with('/')) continue;
    mounts.push_back({.folder = unescaped(fields[1]), .type = fields[2]});
  }
  return mounts;
}

std::string type_at(const std::vector<Mount>& mounts, std::string_view path) {
  std::string best;
  std::string type;
  for (const auto& mount : mounts) {
    // If several file systems are mounted at one point, the last one hides the others.
    if (!lies_under(path, mount.folder) || mount.folder.size() < best.size()) continue;
    best = mount.folder;
    type = mount.type;
  }
  return type;
}

bool is_shared_type(std::string_view type) { return std::ranges::find(kShared, type) != kShared.end(); }

bool is_memory_type(std::string_view type) { return type == "tmpfs" || type == "ramfs" || type == "rootfs"; }

}  // namespace lockstep
