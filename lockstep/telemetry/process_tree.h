// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lockstep {

/// What a task and all that it has started use, as /proc tells it.
struct TreeSample {
  double cpu_seconds = 0;           ///< Since the start, of those that live and those that were waited for.
  std::uint64_t memory_bytes = 0;   ///< Resident; pages that several share count for each.
  std::uint64_t read_bytes = 0;     ///< From storage, by those that live.
  std::uint64_t written_bytes = 0;  ///< To storage, by those that live.
  int processes = 0;
  int threads = 0;
  char state = '?';  ///< Of the task's first thread: R runs, S sleeps, D waits for a disk or a device.
};

/// The tree below `pid`, or nothing where there is no such process. `root` stands for "/" in tests.
std::optional<TreeSample> sample_of_tree(pid_t pid, const std::filesystem::path& root = "/");

/// When the kernel started `pid`, in clock ticks since boot: with the number itself it names one process for ever.
/// Nothing where there is no such process, or only its remains.
std::optional<std::uint64_t> start_of_process(pid_t pid, const std::filesystem::path& root = "/");

/// What the node has, and what a program could still get of it; 0 where /proc/meminfo does not tell.
struct MemorySample {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
};
MemorySample sample_of_memory(const std::filesystem::path& root = "/");

}  // namespace lockstep
