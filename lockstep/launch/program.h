// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep {

/// Returns the program `name` from the first folder of PATH that has it. Returns `name` itself if it holds a slash, and
/// nothing if no folder has it.
std::optional<std::string> program_in_path(const std::string& name, const Environment& env);

/// Returns the same as find_program(), for a program that must exist.
///
/// Throws: Error(kEnvironment) naming PATH, or the path and the reason, if the program cannot be started.
std::string found_program(const std::string& name, const Environment& env);

/// Returns pointers to the words and a null pointer at the end, for exec and posix_spawn. The words must outlive the
/// pointers.
std::vector<char*> exec_pointers(const std::vector<std::string>& words);

/// Returns the variables as words "NAME=value", for exec and posix_spawn.
std::vector<std::string> exec_variables(const Environment::Map& variables);

/// Converts waitpid's status to a shell's, which is the exit code, or 128 + n if signal n ended the process.
int shell_status(int status);

/// Returns the error for a failed fork() or pipe(). It holds `what`, errno's reason, and the way out.
Error process_error(const std::string& what);

/// Replaces this process by `command` with exactly these variables. `program` is the path of its first word.
///
/// Throws: Error(kEnvironment) with the system's reason if the program cannot be started. Otherwise the function does
///         not return.
[[noreturn]] void become(const std::string& program, const std::vector<std::string>& command, const Environment& env);

}  // namespace lockstep
