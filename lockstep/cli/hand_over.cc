// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/hand_over.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/cluster/trainer_build.h"
#include "lockstep/launch/local_launcher.h"

namespace lockstep::cli {
namespace {

[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const auto& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  throw Error(ErrorKind::kEnvironment, "cannot start '" + command[0] + "': " + std::strerror(errno),
              "rebuild it with `make build`");
}

}  // namespace

std::string program_beside(const std::string& name) {
  const auto beside = this_program().parent_path() / name;
  if (::access(beside.c_str(), X_OK) == 0) return beside.string();
  const std::string what =
      name == "lockstep-train" ? "the training half is not built here" : "it was not built with this";
  throw Error(ErrorKind::kEnvironment, "'" + beside.string() + "' is missing: " + what, "build it with `make build`");
}

void hand_over_to(const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {program_beside(name)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  become(command);
}

std::string trainer_program(const Environment& env) {
  if (const auto given = env.get("LOCKSTEP_TRAINER")) {
    if (::access(given->c_str(), X_OK) == 0) return *given;
    throw Error(ErrorKind::kEnvironment, "LOCKSTEP_TRAINER is '" + *given + "', want the program lockstep-train",
                "unset it, or build it again: lockstep setup");
  }
  const auto beside = this_program().parent_path() / "lockstep-train";
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  if (const auto built = chosen_build(env, LOCKSTEP_VERSION)) return built->program;
  throw Error(ErrorKind::kEnvironment, "'" + beside.string() + "' is missing: the training half is not built here",
              "build it for your Python's PyTorch: lockstep setup; in the source tree: make build");
}

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

int hand_over(const std::vector<std::string>& arguments, int ranks, const std::filesystem::path& logs,
              const Context& context) {
  std::vector<std::string> command = {trainer_program(context.env)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (ranks == 1) become(command);
  const int code =
      run_local({.command = command, .ranks = ranks, .owns_store = true, .log_folder = logs}, context.env, context.log);
  // Signals that ask for a stop keep their number; any other that ended a rank means to the run that a peer was killed.
  const bool is_asked_for =
      code == 128 + SIGTERM || code == 128 + SIGINT || code == 128 + SIGUSR1 || code == 128 + SIGUSR2;
  return code > 128 && !is_asked_for ? exit_code(ErrorKind::kPeer) : code;
}

}  // namespace lockstep::cli
