// SPDX-License-Identifier: Apache-2.0
#include "lockstep/snapshot/snapshot_lock.h"

#include "lockstep/base/absolute_folder.h"
#include "lockstep/base/file.h"
#include "lockstep/base/log.h"
#include "lockstep/format/snapshot/snapshot_names.h"

namespace lockstep {
namespace {

std::filesystem::path locked_folder(const std::filesystem::path& snapshots) {
  const auto folder = absolute_folder(snapshots);
  return folder.filename() == "snapshots" ? folder.parent_path() : folder;
}

}  // namespace

void clear_left_overs(const std::filesystem::path& snapshots, const RunLock& lock) {
  // The lock was taken from a process that did not release it. It may have been on another host, and may still live if
  // the file system has no locks. So only stale files are removed.
  if (lock.taken_from()) {
    remove_stale_temporaries(snapshots);
  } else {
    remove_all_temporaries(snapshots);
  }
}

std::unique_ptr<RunLock> lock_snapshots(const std::filesystem::path& snapshots, const ProcessIdentity& self) {
  const auto folder = locked_folder(snapshots);
  make_durable_folder(folder);
  if (is_held_by(folder, self)) return nullptr;
  auto lock = std::make_unique<RunLock>(folder, self);
  clear_left_overs(snapshots, *lock);
  if (const auto& holder = lock->taken_from()) {
    Log(2, "lockstep: ").warning("took the snapshot folder " + snapshots.string() + " over from " + *holder);
  }
  return lock;
}

}  // namespace lockstep
