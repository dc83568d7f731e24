// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/hand_over.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/format/snapshot/held_snapshot.h"
#include "lockstep/launch/attended.h"
#include "lockstep/launch/local/launcher.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/program.h"
#include "lockstep/observe/process_identity.h"
#include "lockstep/observe/run_lock.h"
#include "lockstep/watch/rank_memory.h"

namespace lockstep::cli {
namespace {

std::vector<std::string> command_of(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<std::string> training_command(const std::vector<std::string>& arguments, const Environment& env) {
  return command_of(trainer_program(running_lockstep(), env), arguments);
}

/// Returns the exit code of the run for that of its first failing rank. For a signal that asks for a stop, the code is
/// the same. If another signal ended the rank, the run's code is that of a lost peer.
int code_of_run(int code) {
  const bool is_asked_for =
      code == 128 + SIGTERM || code == 128 + SIGINT || code == 128 + SIGUSR1 || code == 128 + SIGUSR2;
  return code > 128 && !is_asked_for ? exit_code(ErrorKind::kPeer) : code;
}

int supervised(const std::vector<std::string>& command, const Training& training,
               const std::map<std::string, int>& descriptors, const Context& context) {
  return code_of_run(run_local({.command = command,
                                .ranks = training.ranks,
                                .owns_store = true,
                                .run_dir = training.logs.parent_path(),
                                .log_folder = training.logs,
                                .healing = training.healing,
                                .descriptors = descriptors,
                                .stop_grace = stop_grace(context.env)},
                               context.env, context.log));
}

/// True if the training did not end by its own decision, so that the state it last held is useful.
bool is_sudden(int code) {
  return code > 128 || code == exit_code(ErrorKind::kPeer) || code == exit_code(ErrorKind::kIo) ||
         code == exit_code(ErrorKind::kBug);
}

void write_held(const HeldSnapshot& state, const Context& context) {
  const auto held = state.newest();
  if (!held) return;
  try {
    const RunLock lock(held->snapshots.parent_path(), ProcessIdentity::of_process(context.env));
    if (const auto path = write_to_disk(*held)) {
      context.log.info("the state of step " + std::to_string(held->parts.step) +
                       ", which was held in memory, is now in " + path->string());
    }
  } catch (const Error& error) {
    context.log.error("the state of step " + std::to_string(held->parts.step) +
                      ", which was held in memory, is lost: " + error.what());
  }
}

}  // namespace

void hand_over_data(const std::vector<std::string>& arguments, const Environment& env) {
  const auto beside = this_program().parent_path() / "lockstep-data";
  if (::access(beside.c_str(), X_OK) == 0) become(beside, command_of(beside, arguments), env);
  throw Error(ErrorKind::kEnvironment, "'" + beside.string() + "' is missing: it was not built with this",
              "build it with `make build`");
}

LockstepProgram running_lockstep() { return {.path = this_program(), .version = LOCKSTEP_VERSION}; }

int hand_over(const Training& training, const Context& context) {
  const auto command = training_command(training.arguments, context.env);
  if (training.ranks == 1) become(command.front(), command, context.env);
  return supervised(command, training, {}, context);
}

int hand_over_and_hold(const Training& training, bool is_task, const Context& context) {
  const auto command = training_command(training.arguments, context.env);
  auto memory = HeldSnapshot::make_memory();
  const int fd = memory.get();
  int code = 0;
  if (!is_task) {
    code = supervised(command, training, {{kHeldMemoryVariable, fd}}, context);
  } else {
    auto variables = context.env.all();
    variables[kHeldMemoryVariable] = std::to_string(fd);
    ::fcntl(fd, F_SETFD, 0);
    const auto end = attended(command.front(), command, Environment(std::move(variables)));
    // A parent that starts this rank again must know that a signal ended it.
    const bool is_healed = context.env.get(kRankMemoryVariable).has_value();
    code = end.signal == 0 || is_healed ? end.code : code_of_run(end.code);
  }
  // The memory is mapped only now, since it has grown meanwhile.
  if (is_sudden(code)) write_held(HeldSnapshot(std::move(memory)), context);
  return code;
}

}  // namespace lockstep::cli
