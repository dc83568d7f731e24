// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/observe/process_identity.h"

namespace lockstep {

/// Whom a lock trusts.
enum class LockMethod {
  kKernel,  ///< flock; kRecord where the file system has none.
  kRecord,  ///< Only what the lock's file says of its holder.
};

/// The right to write in a run folder, held by rank 0 while the run lives: the file `run.lock` in it.
///
/// Where the file system has flock, the kernel keeps it and drops it with the process, on any node. Some parallel file
/// systems have none (Lustre mounted without `flock`): then the file's record of its holder decides. On one machine
/// that is exact. From another machine a dead holder and a live one look alike, and since a dead writer must never
/// block, the lock is taken, and taken_from() names the holder for a warning.
class RunLock {
 public:
  /// Throws: Error(kEnvironment) naming the holder where another live run has the folder; Error(kIo) where the file
  /// cannot be written.
  RunLock(const std::filesystem::path& run_dir, const ProcessIdentity& self, LockMethod method = LockMethod::kKernel);
  /// Gives the folder back.
  ~RunLock();
  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) = delete;

  /// The former holder, where it could not be seen whether it still lives.
  const std::optional<std::string>& taken_from() const { return taken_from_; }

 private:
  bool try_to_take(const ProcessIdentity& self, LockMethod method);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::optional<std::string> taken_from_;
};

/// Returns who is recorded as the holder of a run folder; nothing if nobody is, or if `self` can tell that it is dead.
std::optional<ProcessIdentity> living_holder(const std::filesystem::path& run_dir, const ProcessIdentity& self);

/// True if the process `self` is recorded as the holder of a run folder, whatever job it takes itself for.
bool is_held_by(const std::filesystem::path& run_dir, const ProcessIdentity& self);

}  // namespace lockstep
