// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep {

/// One task of this node: a process that `lockstep exec` has set up and that has then become the program.
struct RegisteredTask {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::uint64_t started = 0;  ///< As from start_of_process(), so that no later process is mistaken for this one.
};

/// Returns this process as a task.
RegisteredTask this_task(int rank, int local_rank);

/// Registers a task with the node's agent by a small file in `folder`. The file is complete or absent.
///
/// Throws: Error(kIo) if the file cannot be written.
void enter_task(const RegisteredTask& task, const std::filesystem::path& folder);

/// Returns the task with this local rank, or nothing if it has not registered yet.
std::optional<RegisteredTask> entered_task(int local_rank, const std::filesystem::path& folder);

/// Notices the end of a process, which need not be a child. Since Linux 5.3 it notices the end at once, on older
/// kernels only when it is asked.
class WatchedTask {
 public:
  explicit WatchedTask(const RegisteredTask& task);

  const RegisteredTask& task() const { return task_; }
  /// Returns a descriptor that becomes readable once the task has ended. -1 if this kernel has no pidfd.
  int descriptor() const { return pidfd_.get(); }
  bool has_ended();

 private:
  RegisteredTask task_;
  FileDescriptor pidfd_;
  bool has_ended_ = false;
};

}  // namespace lockstep
