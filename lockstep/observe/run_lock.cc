// SPDX-License-Identifier: Apache-2.0
// How one live run per folder is ensured. Two facts decide, the kernel's flock on `run.lock` and the record of the
// holder in that file. The answers of flock:
//
// - Taken. There is no other holder on any node. The record, if there is one, is of a dead holder.
// - Held. The record's process may still be dead, if one of its children, or a lost node, keeps the lock open. If it is
//   surely dead, the file is removed, and the next attempt creates and locks a new one. Otherwise the run is refused.
// - Not supported. The record alone decides. A live holder is refused and a dead one ignored. One that cannot be asked,
//   because it is on another machine, counts as dead, with a warning.
//
// Between open and flock another process may replace the file, so the inode is compared with the path's afterwards. A
// difference means another attempt. The record is written after the lock is taken and truncated when it is given up.
#include "lockstep/observe/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

enum class KernelAnswer { kTaken, kHeld, kNoLocksHere };

KernelAnswer asked_kernel(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return KernelAnswer::kHeld;
    if (errno != EINTR) return KernelAnswer::kNoLocksHere;
  }
  return KernelAnswer::kTaken;
}

// Another process may have replaced the file between open() and flock() in this process.
bool is_still_at(int fd, const std::filesystem::path& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::optional<ProcessIdentity>& holder) {
  throw Error(
      ErrorKind::kEnvironment,
      "another live run writes in '" + path.parent_path().string() +
          "': " + (holder ? holder->described() : "its holder has not written its name yet"),
      "wait for it or stop it, or give this run a folder of its own: --run-dir, or SnapshotOptions::folder in a "
      "program");
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_dir, const ProcessIdentity& self, LockMethod method)
    : path_(run_dir / "run.lock") {
  constexpr int kTries = 10;  // Each one more is another process that replaced the file at the same time.
  for (int i = 0; i < kTries; ++i) {
    if (try_to_take(self, method)) return;
  }
  refuse(path_, ProcessIdentity::from_json(text_of_file(path_)));
}

bool RunLock::try_to_take(const ProcessIdentity& self, LockMethod method) {
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file_) {
    throw Error(ErrorKind::kIo, system_fact("open", path_, errno),
                "choose a folder that you may write to with --run-dir, or change its permissions");
  }
  const auto holder = ProcessIdentity::from_json(text_of_file(path_));
  const auto answer = method == LockMethod::kKernel ? asked_kernel(file_.get()) : KernelAnswer::kNoLocksHere;
  if (answer == KernelAnswer::kHeld) {
    if (!holder || liveness(*holder, self) != Liveness::kDead) refuse(path_, holder);
    // A child of the dead holder, or a lost node, still has the lock on this file. So the file is removed, and a new
    // one is created.
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT) refuse(path_, holder);
    return false;
  }
  if (answer == KernelAnswer::kNoLocksHere && holder) {
    const Liveness state = liveness(*holder, self);
    if (state == Liveness::kAlive) refuse(path_, holder);
    if (state == Liveness::kUnknown) taken_from_ = holder->described();
  }
  if (!is_still_at(file_.get(), path_)) return false;
  const std::string record = self.to_json() + '\n';
  if (::ftruncate(file_.get(), 0) != 0) {
    throw Error(ErrorKind::kIo, system_fact("truncate", path_, errno), "check the run folder's file system");
  }
  write_all(file_.get(), std::as_bytes(std::span(record)), path_);
  return true;
}

namespace {

std::optional<ProcessIdentity> holder_of(const std::filesystem::path& run_dir) {
  std::error_code error;
  const auto path = run_dir / "run.lock";
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  return ProcessIdentity::from_json(text_of_file(path));
}

}  // namespace

std::optional<ProcessIdentity> living_holder(const std::filesystem::path& run_dir, const ProcessIdentity& self) {
  auto holder = holder_of(run_dir);
  if (holder && liveness(*holder, self) == Liveness::kDead) return std::nullopt;
  return holder;
}

bool is_held_by(const std::filesystem::path& run_dir, const ProcessIdentity& self) {
  const auto holder = holder_of(run_dir);
  return holder && holder->pid == self.pid && holder->started == self.started && holder->boot == self.boot &&
         holder->pid_namespace == self.pid_namespace;
}

RunLock::~RunLock() {
  // The record is removed, so that nobody takes a later process with the same id for the holder. If this fails, the
  // start time still distinguishes the two.
  if (file_) [[maybe_unused]]
    const int emptied = ::ftruncate(file_.get(), 0);
}

}  // namespace lockstep
