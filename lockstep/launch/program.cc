// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

/// Sets errno if the path cannot be run. access() alone is not enough, since the permission to enter a folder is the
/// same as to run a program.
bool is_program(const std::string& path) {
  if (::access(path.c_str(), X_OK) != 0) return false;
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return true;
  errno = EISDIR;
  return false;
}

std::string path_of(const Environment& env) { return env.get("PATH").value_or("/usr/bin:/bin"); }

}  // namespace

std::optional<std::string> program_in_path(const std::string& name, const Environment& env) {
  if (name.find('/') != std::string::npos) return name;
  for (const auto& folder : split(path_of(env), ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(candidate)) return candidate;
  }
  return std::nullopt;
}

std::string found_program(const std::string& name, const Environment& env) {
  const auto found = program_in_path(name, env);
  if (!found) {
    throw Error(ErrorKind::kEnvironment, "program '" + name + "' was not found in PATH='" + path_of(env) + "'",
                "give its path, for example ./" + name);
  }
  if (is_program(*found)) return *found;
  throw Error(ErrorKind::kEnvironment, system_fact("start", name, errno), "check the path and its permissions");
}

std::vector<char*> exec_pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const auto& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> exec_variables(const Environment::Map& variables) {
  std::vector<std::string> words;
  for (const auto& [name, value] : variables) words.push_back(name + "=" + value);
  return words;
}

int shell_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

Error process_error(const std::string& what) {
  return {ErrorKind::kEnvironment, what + ": " + std::strerror(errno),
          "raise the limits of processes and open files: ulimit -u, ulimit -n"};
}

void become(const std::string& program, const std::vector<std::string>& command, const Environment& env) {
  const auto variables = exec_variables(env.all());
  const auto envp = exec_pointers(variables);
  auto argv = exec_pointers(command);
  ::execve(program.c_str(), argv.data(), envp.data());
  const int reason = errno;
  // Handles a script without a first line that names its shell, as execvp does.
  if (reason == ENOEXEC) {
    std::string shell = "/bin/sh";
    std::string script = program;
    argv.front() = script.data();
    argv.insert(argv.begin(), shell.data());
    ::execve(shell.c_str(), argv.data(), envp.data());
  }
  throw Error(ErrorKind::kEnvironment, "'" + program + "' cannot be started: " + std::strerror(reason),
              "check that it is a program for this machine");
}

}  // namespace lockstep
