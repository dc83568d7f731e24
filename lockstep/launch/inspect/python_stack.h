// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"
#include "lockstep/watch/native_stack.h"

namespace lockstep {

/// True if the process is a Python interpreter, or has loaded one.
bool runs_python(pid_t pid);

/// Returns the path of py-spy. It is looked for in PATH of `env`, beside the process's own program, and in its virtual
/// environment.
std::optional<std::string> find_py_spy(pid_t pid, const Environment& env);

/// Returns the Python lines of a process's main thread, by `py-spy dump`. py-spy reads the memory of the
/// process, which may go on meanwhile, or be stopped. If there are no lines, the note says why, for example because the
/// system forbids it.
///
/// Blocks: for at most `patience`. Then py-spy is killed.
ThreadStack read_python_stack(pid_t pid, const Environment& env, std::chrono::seconds patience);

/// Returns the frames in the JSON output of `py-spy dump --json`, of the main thread.
ThreadStack py_spy_frames(std::string_view json, pid_t pid);

}  // namespace lockstep
