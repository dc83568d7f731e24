// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep {

/// The program `name` in the first folder of PATH that has it; `name` itself where it holds a slash. Nothing where no
/// folder has it.
std::optional<std::string> program_in_path(const std::string& name, const Environment& env);

/// The same for a program that must be there.
///
/// Throws: Error(kEnvironment) naming PATH, or the path and the reason, where it cannot be started.
std::string found_program(const std::string& name, const Environment& env);

/// What exec and posix_spawn take for these words: pointers to them, then a null. They must outlive it.
std::vector<char*> exec_pointers(const std::vector<std::string>& words);

/// What a shell tells of the status that waitpid gave: the exit code, or 128 + n where signal n ended the process.
int shell_status(int status);

/// The error for a system that refuses a process or a pipe: `what`, errno's reason, and the way out.
Error process_error(const std::string& what);

/// Replaces this process by `command` with exactly these variables. `program` is the path of its first word.
///
/// Throws: Error(kEnvironment) with the system's reason where that fails; otherwise it does not return.
[[noreturn]] void become(const std::string& program, const std::vector<std::string>& command, const Environment& env);

}  // namespace lockstep
