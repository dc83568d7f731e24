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
  std::string again;          ///< Stay as the parent. If the program ends with 75, create this file and end with 0.
  std::string on_sockets;     ///< "warn", "stop" or "ignore". If empty, $LOCKSTEP_ON_SOCKETS, else warn.
  std::string stuck_after;    ///< In seconds. If empty, $LOCKSTEP_STUCK_AFTER, else as in HealthLimits.
  std::string heal;           ///< For a recipe's task. How often it is started again, as parsed_healing() reads it.
  bool stay = false;          ///< Stay as the program's parent, and keep how it ended.
  bool rank_logs = false;     ///< Stay as the parent, and also write the program's output to the run folder.
  bool starts_ranks = false;  ///< As in TaskFacts.
  bool report = false;
  bool no_bind = false;
  bool no_caches = false;
  bool no_agent = false;
  bool dry_run = false;

  /// True if this process stays as the program's parent.
  bool stays() const { return stay || rank_logs || !again.empty() || !heal.empty(); }
};

/// The result of all decisions for one task of a job.
struct ExecTask {
  Placement at;
  TaskSettings settings;
  TaskFacts facts;
  CpuSet allowed;  ///< The CPUs that the launcher allowed this task.
  Binding binding;
  Rendezvous rendezvous;
  SocketPolicy sockets = SocketPolicy::kWarn;
  std::string node;                   ///< Its name, for files.
  std::filesystem::path run_dir;      ///< Empty if no run folder was given.
  std::filesystem::path node_folder;  ///< Empty outside a job.
  std::filesystem::path cache_pack;   ///< The pack that the caches there start from, and are given back to.
  double stuck_after_s = 0;           ///< The time after which the agent reports stuck tasks and idle devices. 0 for
                                      ///< never.
  TaskEnvironment environment;
};

/// Returns the part of a profile that one task needs.
TaskSettings settings_of(const Profile& profile);

/// Decides everything for this task, binds this process to its CPUs, makes the folders and registers with the node's
/// agent. With `dry_run` it only decides, and changes nothing.
///
/// Blocks: until ranks on other nodes know the address of rank 0, see rendezvous_of(); not at all with `dry_run`.
/// Throws: as placement_from(), rendezvous_of() and ProfileLibrary::chosen() do.
ExecTask prepare_task(const ExecOptions& options, const Environment& env, const Log& log);

/// Returns the command that this task starts. It is `command`. If `command` has a launcher of ranks that does not learn
/// of the job's other nodes from variables, options are added for them. `process` is the environment with which this
/// process was started.
std::vector<std::string> started_command(const ExecTask& task, const Environment& process,
                                         std::vector<std::string> command);

/// Returns the run folder of a task, from a flag or a variable. Empty if there is none.
std::filesystem::path task_run_dir(const ExecOptions& options, const Environment& env);

/// Returns the record of a task whose program has ended.
RankExit exit_record(const ExecTask& task, const Environment& env, const ProgramEnd& end);

/// Returns the record of a task that ended before its program was started. Its rank and node come from Slurm.
RankExit exit_record_before_start(const Environment& env, const Error& error);

/// Removes node folders that earlier jobs of this user have left, as an agent does, if this is local rank 0. It is for
/// a task without an agent. Takes at most 1 s.
void remove_folders_of_earlier_jobs(const ExecTask& task);

/// Starts the node's agent if this is local rank 0 and the agent has something to do.
void start_task_agent(const ExecTask& task, const Environment& env, const Log& log);

}  // namespace lockstep
