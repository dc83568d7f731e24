// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// The kernel's facts about a process of any program. Facts that this user may not read are empty or -1.
struct ProcessFacts {
  pid_t pid = -1;
  char state = '?';                         ///< As /proc/PID/stat has it. '?' if there is no such process.
  std::string command{};                    ///< First words of its command line.
  std::string wait_channel{};               ///< The kernel function in which the thread sleeps.
  std::vector<std::string> kernel_stack{};  ///< Innermost first. Only root may read it.
  std::string system_call{};                ///< "read", or "call 999" if this code does not know the name.
  std::string file{};                       ///< The file that the call reads or writes.
  int threads = -1;
  double cpu_s = -1;  ///< CPU time of all its threads.
  std::int64_t resident_bytes = -1;
};

/// Returns the facts of `thread` of process `pid`. Source: proc(5).
ProcessFacts read_process_facts(pid_t pid, pid_t thread);

/// Returns a text such as "in read of /data/x.tar (kernel: pipe_read)". Empty if it is unknown what the thread waits
/// for.
std::string describe_wait(const ProcessFacts& facts);

/// Returns the child processes of `pid`, then their children and so on, at most `most`.
std::vector<pid_t> processes_below(pid_t pid, std::size_t most);

/// Returns the environment variables that a process got at its start.
Environment variables_of_process(pid_t pid);

/// Returns the command line with which a process was started, as words.
std::vector<std::string> words_of_process(pid_t pid);

}  // namespace lockstep
