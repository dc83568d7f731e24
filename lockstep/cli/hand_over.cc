// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/hand_over.h"

#include <unistd.h>

#include <csignal>

#include "lockstep/base/error.h"
#include "lockstep/launch/local/launcher.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/program.h"

namespace lockstep::cli {
namespace {

/// This process becomes `program ARGUMENTS`.
[[noreturn]] void give_way_to(const std::string& program, const std::vector<std::string>& arguments,
                              const Environment& env) {
  std::vector<std::string> command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  become(program, command, env);
}

}  // namespace

void hand_over_data(const std::vector<std::string>& arguments, const Environment& env) {
  const auto beside = this_program().parent_path() / "lockstep-data";
  if (::access(beside.c_str(), X_OK) == 0) give_way_to(beside, arguments, env);
  throw Error(ErrorKind::kEnvironment, "'" + beside.string() + "' is missing: it was not built with this",
              "build it with `make build`");
}

LockstepProgram running_lockstep() { return {.path = this_program(), .version = LOCKSTEP_VERSION}; }

int hand_over(const std::vector<std::string>& arguments, int ranks, const std::filesystem::path& logs,
              const Context& context) {
  const auto trainer = trainer_program(running_lockstep(), context.env);
  if (ranks == 1) give_way_to(trainer, arguments, context.env);
  std::vector<std::string> command = {trainer};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const int code = run_local({.command = command,
                              .ranks = ranks,
                              .owns_store = true,
                              .log_folder = logs,
                              .stop_grace = stop_grace(context.env)},
                             context.env, context.log);
  // Signals that ask for a stop keep their number; any other that ended a rank means to the run that a peer was killed.
  const bool is_asked_for =
      code == 128 + SIGTERM || code == 128 + SIGINT || code == 128 + SIGUSR1 || code == 128 + SIGUSR2;
  return code > 128 && !is_asked_for ? exit_code(ErrorKind::kPeer) : code;
}

}  // namespace lockstep::cli
