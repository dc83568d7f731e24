// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Facts that the kernel gives of a process, of any program. Those that this user may not read are empty or -1.
struct ProcessFacts {
  pid_t pid = -1;
  char state = '?';                         ///< As /proc/PID/stat has it. '?' if there is no such process.
  std::string command{};                    ///< Its first words.
  std::string wait_channel{};               ///< The kernel's function in which its thread sleeps.
  std::vector<std::string> kernel_stack{};  ///< Innermost first. Only root may read it.
  std::string system_call{};                ///< "read", or "call 999" for one that is not known here.
  std::string file{};                       ///< What that call reads or writes.
  int threads = -1;
  double cpu_s = -1;  ///< Of all its threads.
  std::int64_t resident_bytes = -1;
};

/// Returns the facts of `thread` of process `pid`. Source: proc(5).
ProcessFacts read_process_facts(pid_t pid, pid_t thread);

/// "in read of /data/x.tar (kernel: pipe_read)". Empty if nothing is known of what it waits for.
std::string describe_wait(const ProcessFacts& facts);

/// Returns the processes below `pid`, nearest first, at most `most`.
std::vector<pid_t> processes_below(pid_t pid, std::size_t most);

/// Returns the variables that a process got at its start.
Environment variables_of_process(pid_t pid);

/// Returns the words with which a process was started.
std::vector<std::string> words_of_process(pid_t pid);

}  // namespace lockstep
