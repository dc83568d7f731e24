// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/agent/agent.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/profile/profile.h"
#include "lockstep/cluster/record/exit_record.h"
#include "lockstep/launch/affinity.h"
#include "lockstep/launch/attended.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/task_environment.h"
#include "lockstep/launch/task_settings.h"

namespace lockstep {

/// The arguments of `lockstep exec`.
struct ExecOptions {
  std::string cluster = "auto";
  std::string run_dir;
  std::string again;          ///< Stay; if the program ends with 75, make this file and end with 0.
  std::string on_sockets;     ///< "warn", "stop" or "ignore"; empty: $LOCKSTEP_ON_SOCKETS, else warn.
  std::string stuck_after;    ///< Seconds; empty: $LOCKSTEP_STUCK_AFTER, else as HealthLimits has it.
  bool stay = false;          ///< Stay as the program's parent, and keep how it ended.
  bool rank_logs = false;     ///< Stay; keep what the program writes in the run folder, too.
  bool starts_ranks = false;  ///< As TaskFacts has it.
  bool report = false;
  bool no_bind = false;
  bool no_caches = false;
  bool no_agent = false;
  bool dry_run = false;

  /// True if this process stays as the program's parent.
  bool stays() const { return stay || rank_logs || !again.empty(); }
};

/// All that is decided for one task of a job.
struct ExecTask {
  Placement at;
  TaskSettings settings;
  TaskFacts facts;
  CpuSet allowed;  ///< Where the launcher let this task run.
  Binding binding;
  Rendezvous rendezvous;
  SocketPolicy sockets = SocketPolicy::kWarn;
  std::string node;                   ///< Its name, for files.
  std::filesystem::path run_dir;      ///< Empty where no run folder was given.
  std::filesystem::path node_folder;  ///< Empty outside a job.
  std::filesystem::path cache_pack;   ///< What the caches there start from, and are given back to.
  double stuck_after_s = 0;           ///< When the agent takes tasks for stuck and devices for idle; 0: never.
  TaskEnvironment environment;
};

/// Returns the part of a profile that one task needs.
TaskSettings settings_of(const Profile& profile);

/// Decides everything for this task, binds this process to its CPUs, makes the folders and registers with the node's
/// agent. With `dry_run` it only decides.
///
/// Blocks: until ranks on other nodes know the address of rank 0, see rendezvous_of(); never with `dry_run`.
/// Throws: as placement_from(), rendezvous_of() and ProfileLibrary::chosen() do.
ExecTask prepare_task(const ExecOptions& options, const Environment& env, const Log& log);

/// Returns the command that this task starts: `command`, which with a launcher of ranks in it is told of the job's
/// other nodes where its variables do not tell it. `process` is the environment that this process was started with.
std::vector<std::string> started_command(const ExecTask& task, const Environment& process,
                                         std::vector<std::string> command);

/// Returns the run folder that a task was given, by flag or by variable; empty if none was.
std::filesystem::path task_run_dir(const ExecOptions& options, const Environment& env);

/// Returns the record of a task whose program has ended.
RankExit exit_record(const ExecTask& task, const Environment& env, const ProgramEnd& end);

/// Returns the record of a task that ended before its program was started: its place is what Slurm says.
RankExit exit_record_before_start(const Environment& env, const Error& error);

/// Starts the node's agent if this is local rank 0 and the agent has something to do.
void start_task_agent(const ExecTask& task, const Environment& env, const Log& log);

}  // namespace lockstep
