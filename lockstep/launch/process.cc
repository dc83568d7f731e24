// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/program.h"

namespace lockstep {
namespace {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Pipe made_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kEnvironment, std::string("no pipe can be made: ") + std::strerror(errno),
                "raise the limit of open files: ulimit -n");
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Reads both pipes to their ends, each as soon as it has data.
void read_both(const Pipe& out, const Pipe& err, const std::function<void(std::string_view)>& take,
               std::string& errors) {
  std::array<pollfd, 2> ends = {pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0}};
  std::vector<char> buffer(std::size_t{1} << 16U);
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends.at(i).fd < 0 || ends.at(i).revents == 0) continue;
      const auto got = ::read(ends.at(i).fd, buffer.data(), buffer.size());
      if (got == 0 || (got < 0 && errno != EINTR)) ends.at(i).fd = -1;
      if (got <= 0) continue;
      const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
      if (i == 0) {
        take(text);
      } else {
        errors += text;
      }
    }
  }
}

int exit_code_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return shell_status(status);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, const Environment& env) {
  std::string output;
  ProcessResult result = run_process(command, env, [&](std::string_view text) { output += text; });
  result.output = std::move(output);
  return result;
}

ProcessResult run_process(const std::vector<std::string>& command, const Environment& env,
                          const std::function<void(std::string_view)>& take) {
  LOCKSTEP_ASSERT(!command.empty());
  // posix_spawnp() would search this process's PATH, not the PATH of `env`.
  const auto program = program_in_path(command.front(), env);
  if (!program) return {.exit_code = 127, .output = {}, .errors = command.front() + " is not in PATH"};
  Pipe out = made_pipe();
  Pipe err = made_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
  const auto variables = exec_variables(env.all());
  pid_t child = -1;
  const int failure = ::posix_spawn(&child, program->c_str(), &actions, nullptr, exec_pointers(command).data(),
                                    exec_pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    throw Error(ErrorKind::kEnvironment, "'" + *program + "' cannot be started: " + std::strerror(failure),
                "try it by hand");
  }
  out.write.reset();
  err.write.reset();
  ProcessResult result;
  try {
    read_both(out, err, take, result.errors);
  } catch (...) {
    out.read.reset();
    err.read.reset();
    exit_code_of(child);
    throw;
  }
  result.exit_code = exit_code_of(child);
  return result;
}

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

}  // namespace lockstep
