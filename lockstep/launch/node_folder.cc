// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/node_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// NFS, Lustre, GPFS, BeeGFS, Ceph, PanFS, CIFS and OrangeFS, by their magic numbers (statfs(2) and their sources).
constexpr std::array<std::uint32_t, 8> kNetworkFileSystems = {0x6969,     0x0BD00BD0, 0x47504653, 0x19830326,
                                                              0x00C36400, 0xAAD7AAEA, 0xFF534D42, 0x20030528};

fs::path local_root(const Environment& env, const TaskSettings& settings) {
  // Many users set TMPDIR to a scratch folder on a network file system. Caches must not be there.
  if (const auto own = env.get("TMPDIR"); own && !is_on_network(*own)) return *own;
  return settings.caches.node_local.empty() ? "/tmp" : settings.caches.node_local;
}

/// True if only this user can enter `folder`, so that nothing in it belongs to anybody else.
bool is_private(const struct stat& folder) { return folder.st_uid == ::geteuid() && (folder.st_mode & 077U) == 0; }

bool lies_in_private_folder(const fs::path& path) {
  struct stat parent {};
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return ::lstat(folder.c_str(), &parent) == 0 && S_ISDIR(parent.st_mode) && is_private(parent);
}

}  // namespace

bool is_on_network(const fs::path& path) {
  struct statfs found {};
  if (::statfs(path.c_str(), &found) != 0) return false;
  const auto type = static_cast<std::uint32_t>(found.f_type);
  return std::find(kNetworkFileSystems.begin(), kNetworkFileSystems.end(), type) != kNetworkFileSystems.end();
}

fs::path node_folder(const Placement& at, const Environment& env, const TaskSettings& settings) {
  std::string job = at.job;
  std::replace(job.begin(), job.end(), '/', '_');
  return local_root(env, settings) /
         ("lockstep-" + std::to_string(::geteuid()) + "-" + job + "-" + std::to_string(at.node_rank));
}

void make_private_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return;
  const int reason = errno;
  if (reason != EEXIST) throw io_error("make", path, reason);
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found {};
  if (!folder || ::fstat(folder.get(), &found) != 0) throw io_error("open", path, errno);
  if (is_private(found)) return;
  // A program may have removed and created this folder again, with the mode of its umask. Nobody else could enter
  // meanwhile, since the folder above is private. So the mode is set again.
  if (found.st_uid == ::geteuid() && lies_in_private_folder(path) && ::fchmod(folder.get(), 0700) == 0) return;
  throw Error(ErrorKind::kEnvironment,
              "'" + path.string() + "' is owned by user " + std::to_string(found.st_uid) + " with mode " +
                  std::to_string((found.st_mode >> 6U) & 7U) + std::to_string((found.st_mode >> 3U) & 7U) +
                  std::to_string(found.st_mode & 7U) + ", want user " + std::to_string(::geteuid()) + " and 700",
              "remove it, or set TMPDIR to a folder of your own");
}

}  // namespace lockstep
