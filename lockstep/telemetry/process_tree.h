// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// The resources that a task and all its descendants use, from /proc.
struct TreeSample {
  double cpu_seconds = 0;           ///< Since the start, of those that live and those that were waited for.
  std::uint64_t memory_bytes = 0;   ///< Resident. Pages that several share count for each.
  std::uint64_t read_bytes = 0;     ///< From storage, by those that live.
  std::uint64_t written_bytes = 0;  ///< To storage, by those that live.
  std::uint64_t passed_bytes = 0;   ///< To write(), on any file system, by those that live.
  int processes = 0;
  int threads = 0;
  char state = '?';  ///< State of the task's first thread. R runs, S sleeps, D waits for a disk or a device.
};

/// Measures the process tree below `pid`. Returns nothing if there is no such process. `root` stands for "/" in tests.
std::optional<TreeSample> sample_of_tree(pid_t pid, const std::filesystem::path& root = "/");

/// Returns `pid` and all its descendants that run. Empty if there is no such process.
std::vector<pid_t> processes_of_tree(pid_t pid, const std::filesystem::path& root = "/");

/// Returns the time when the kernel started `pid`, in clock ticks since boot. Together with `pid` it identifies a
/// process for ever. Nothing if there is no such process, or if it is a zombie.
std::optional<std::uint64_t> start_of_process(pid_t pid, const std::filesystem::path& root = "/");

/// Returns the variables with which the program of `pid` was started. Empty if there is no such process, or if it
/// belongs to another user.
Environment environment_of_process(pid_t pid, const std::filesystem::path& root = "/");

/// Returns the parent of `pid`. Nothing if there is no such process.
std::optional<pid_t> parent_of_process(pid_t pid, const std::filesystem::path& root = "/");

/// The node's total memory, and the memory that a program can still get. 0 if /proc/meminfo does not report it.
struct MemorySample {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
};
MemorySample sample_of_memory(const std::filesystem::path& root = "/");

}  // namespace lockstep
