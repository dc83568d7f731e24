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
  kKernel,  ///< flock. kRecord if the file system has none.
  kRecord,  ///< Only the record of the holder in the lock's file.
};

/// The right to write in a run folder. Rank 0 holds it while the run lives, as the file `run.lock` in the folder.
///
/// If the file system supports flock, the kernel keeps the lock and drops it with the process, on any node. Some
/// parallel file systems do not (Lustre mounted without `flock`). The file's record of its holder then decides. On one
/// machine that is exact. From another machine a dead holder looks like a live one. Since a dead writer must never
/// block a run, the lock is then taken, and taken_from() names the holder for a warning.
class RunLock {
 public:
  /// Takes the lock. Throws: Error(kEnvironment) naming the holder if another live run has the folder; Error(kIo) if
  /// the file cannot be written.
  RunLock(const std::filesystem::path& run_dir, const ProcessIdentity& self, LockMethod method = LockMethod::kKernel);
  /// Gives the folder back.
  ~RunLock();
  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) = delete;

  /// Returns the former holder, if it is unknown whether that process still lives.
  const std::optional<std::string>& taken_from() const { return taken_from_; }

 private:
  bool try_to_take(const ProcessIdentity& self, LockMethod method);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::optional<std::string> taken_from_;
};

/// Returns the recorded holder of a run folder. Nothing if there is no holder, or if `self` can tell that it is dead.
std::optional<ProcessIdentity> living_holder(const std::filesystem::path& run_dir, const ProcessIdentity& self);

/// True if the process `self` is recorded as the holder of a run folder. Its job is not compared.
bool is_held_by(const std::filesystem::path& run_dir, const ProcessIdentity& self);

}  // namespace lockstep
