// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cluster/record/exit_record.h"
#include "lockstep/cluster/record/step_end.h"
#include "lockstep/cluster/task/exec_task.h"
#include "lockstep/cluster/task/failed_peer.h"
#include "lockstep/cluster/task/task_healing.h"
#include "lockstep/cluster/task/task_watch.h"
#include "lockstep/launch/attended.h"
#include "lockstep/launch/early_signal.h"
#include "lockstep/launch/placement/host_list.h"
#include "lockstep/launch/program.h"
#include "lockstep/launch/slurm_tool.h"

namespace lockstep::cli {
namespace {

/// Returns the changes that exec makes to the environment. Removed variables are null.
nlohmann::json changes(const Environment& before, const Environment& after) {
  nlohmann::json changed = nlohmann::json::object();
  for (const auto& [name, value] : after.all()) {
    const auto it = before.all().find(name);
    if (it == before.all().end() || it->second != value) changed[name] = value;
  }
  for (const auto& [name, value] : before.all()) {
    if (!after.all().contains(name)) changed[name] = nullptr;
  }
  return changed;
}

void print_plan(const ExecTask& task, const Context& context) {
  nlohmann::json device = nullptr;
  if (task.at.device) device = *task.at.device;
  print_json({{"rank", task.at.rank},
              {"device", device},
              {"cluster", task.settings.cluster},
              {"cpus", list_of(task.binding.cpus)},
              {"binding", report_of(task.binding, Topology())},
              {"command", started_command(task, context.env, context.program)},
              {"variables", changes(context.env, task.environment.env)},
              {"notes", task.environment.notes}});
}

/// Appends one line for each task to a file in the run folder. It has the tasks of all starts, in the order in which
/// they came.
void keep_report(const ExecTask& task, const std::string& line) {
  const auto path = task.run_dir / "logs" / ("tasks-" + task.node + ".log");
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) throw io_error("open", path, errno);
  const std::string text = line + "\n";
  write_all(file.get(), std::as_bytes(std::span(text)), path);
}

void report(const ExecTask& task, bool to_log, const Log& log) {
  const std::string rank = "rank " + std::to_string(task.at.rank) + " on " + task.node + ": ";
  if (task.at.rank == 0) {
    for (const auto& note : task.environment.notes) log.info(note);
  }
  if (!task.binding.warning.empty()) log.warning(rank + task.binding.warning);
  if (!to_log && task.run_dir.empty()) return;
  const std::string line = rank + report_of(task.binding, Topology());
  if (to_log) log.info(line);
  if (!task.run_dir.empty()) keep_report(task, line);
}

/// A batch script runs as one process on the job's first node, whatever number of tasks was requested.
void warn_of_missing_srun(const ExecTask& task, const Environment& env, const Log& log) {
  if (task.at.source != "single" || !env.get("SLURM_JOB_ID")) return;
  const auto tasks = env.get("SLURM_NTASKS");
  if (!tasks || *tasks == "1") return;
  log.warning("this job has " + *tasks +
              " tasks, but this is one process outside of them\n  hint: start it with srun: srun lockstep exec -- …");
}

/// A failure is ignored. Without the record the run is the same, and only its report knows less.
void keep_exit(const RankExit& exit, const std::filesystem::path& run_dir, const Log& log) {
  if (run_dir.empty()) return;
  try {
    append_exit(run_dir, exit);
  } catch (const Error& error) {
    log.warning(std::string("cannot record how this rank ended: ") + error.what());
  }
}

/// Opens logs/rank-NNNN.log, which gets the rank's output too, over all starts of the run. If the file cannot be
/// opened, the job's log still has all output.
FileDescriptor rank_log(const ExecTask& task, const Environment& env, const Log& log) {
  const auto path = task.run_dir / "logs" / (rank_name(task.at.rank) + ".log");
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) {
    log.warning("cannot write this rank's own log: " + path.string() + ": " + std::strerror(errno));
    return file;
  }
  const std::string text = "== job " + env.get("SLURM_JOB_ID").value_or("none") + ", start " +
                           std::to_string(task.at.restart + 1) + ", rank " + std::to_string(task.at.rank) + " on " +
                           task.node + "\n";
  if (::write(file.get(), text.data(), text.size()) < 0) log.warning(path.string() + ": " + std::strerror(errno));
  return file;
}

/// True if a word of the command is a launcher that reads torchrun's variables. Set-up commands may come before it.
bool names_torchrun(const std::vector<std::string>& command) {
  return std::ranges::any_of(command, [](const auto& word) {
    const auto name = std::filesystem::path(word).filename().string();
    return name == "torchrun" || name == "accelerate" || name == "accelerate-launch" ||
           word == "torch.distributed.run" || word == "torch.distributed.launch" ||
           word == "accelerate.commands.launch";
  });
}

/// True for a rank of a recipe. It blocks the warning signal before the limit until it has a handler for it.
bool is_own_training(const std::string& program, const std::vector<std::string>& command) {
  return command.size() > 1 && command[1] == "train" &&
         std::filesystem::path(program).filename() == this_program().filename();
}

/// Returns the watch of a task that has a run folder.
std::unique_ptr<TaskWatch> task_watch(const ExecTask& task, const Log& log) {
  if (task.run_dir.empty()) return nullptr;
  try {
    return std::make_unique<TaskWatch>(task.at, task.node, task.run_dir, log);
  } catch (const Error& error) {
    log.warning(std::string(error.fact()) + ": nobody will know what this task does");
    return nullptr;
  }
}

/// Returns what starts a recipe's task again. Null if it is not asked for, or if there are no other ranks to give the
/// state.
std::unique_ptr<TaskHealing> task_healing(const ExecOptions& options, const ExecTask& task, const std::string& program,
                                          const Context& context) {
  if (options.heal.empty()) return nullptr;
  const auto limits = parsed_healing(options.heal);
  if (task.at.world == 1 || !is_own_training(program, context.program)) return nullptr;
  return std::make_unique<TaskHealing>(task, limits, context.log);
}

/// Returns what ends a recipe's rank that does not notice a dead peer. Slurm ends the step of any other program itself.
std::unique_ptr<FailedPeer> failed_peer(const ExecTask& task, const std::string& program, const Context& context) {
  if (task.run_dir.empty() || task.at.world == 1 || !is_own_training(program, context.program)) return nullptr;
  return std::make_unique<FailedPeer>(exit_record(task, context.env, {}), task.at.world, task.run_dir, context.log);
}

void run(ExecOptions options, Context& context) {
  options.starts_ranks = names_torchrun(context.program);
  if (context.program.empty() || context.program.front().empty()) {
    throw Error(ErrorKind::kUsage, "no program was given", "write it after two dashes: srun lockstep exec -- program");
  }
  if (options.dry_run) {
    print_plan(prepare_task(options, context.env, context.log), context);
    return;
  }
  // The program is looked up before anything else, so that a misspelt name does not leave the other ranks waiting.
  const auto program = found_program(context.program.front(), context.env);
  const ExecTask task = prepare_task(options, context.env, context.log);
  report(task, options.report, context.log);
  warn_of_missing_srun(task, context.env, context.log);
  if (options.no_agent) {
    remove_folders_of_earlier_jobs(task);
  } else {
    start_task_agent(task, context.env, context.log);
  }
  if (!is_own_training(program, context.program)) release_early_signal();
  const auto command = started_command(task, context.env, context.program);
  if (!options.stays()) become(program, command, task.environment.env);
  const bool is_logged = options.rank_logs && !task.run_dir.empty();
  const auto own_log = is_logged ? rank_log(task, context.env, context.log) : FileDescriptor();
  const auto watch = task_watch(task, context.log);
  const auto peer = failed_peer(task, program, context);
  const auto healing = task_healing(options, task, program, context);
  std::function<void(pid_t)> each_second;
  if (watch || peer || healing) {
    each_second = [&](pid_t child) {
      if (watch) watch->look(child);
      if (peer) peer->look(child, watch ? watch->training_process(child) : child);
      if (healing) healing->look();
    };
  }
  const auto start = [&] {
    auto env = watch ? watch->with_page(task.environment.env) : task.environment.env;
    if (healing) env = healing->with_variables(env);
    auto end = attended(program, command, env, own_log ? own_log.get() : -1, each_second);
    return peer ? peer->told_end(std::move(end)) : end;
  };
  auto end = start();
  while (healing && healing->heals(end)) end = start();
  if (healing) healing->note_end();
  auto exit = exit_record(task, context.env, end);
  if (watch && end.code != 0) {
    exit.doing = watch->doing();
    if (end.signal == 0) exit.told_by = watch->told_by();
  }
  if (peer) peer->tell(exit);
  keep_exit(exit, task.run_dir, context.log);
  if (healing) end_step_without(healing->lost_tasks(), exit, task.run_dir, context.env, context.log);
  context.exit_code = end.code;
  // If a task ends with another code than 0, Slurm stops all tasks, also those that are still saving.
  if (end.code != kExitStopped || options.again.empty()) return;
  write_whole(options.again, "", false);
  context.exit_code = 0;
}

/// Runs a task of a step that `lockstep submit` wrote. It records how the task ended, also if its program did not
/// start.
void run_and_keep(const ExecOptions& options, Context& context) {
  try {
    run(options, context);
  } catch (const Error& error) {
    const auto run_dir = task_run_dir(options, context.env);
    keep_exit(exit_record_before_start(context.env, error), run_dir, context.log);
    throw;
  }
}

/// The arguments of `lockstep after-step`.
struct AfterStep {
  EndedStep ended;
  std::string nodes;  ///< Slurm's list.
  std::string all;    ///< The same of all nodes of the job.
  int tasks_per_node = 1;
  int most = 0;
};

/// True for a node that is down, drained or not responding, as `sinfo --format=%T` prints its state. A draining or
/// failing node takes no other job, but it still serves this one. Source: sinfo(1), "NODE STATE CODES".
bool is_out_of_service(const std::string& state) {
  return state.starts_with("down") || state.starts_with("drained") || state == "fail" || state.ends_with('*');
}

/// Returns the nodes that the job has lost, or that Slurm reports as out of service. Empty if Slurm does not answer. A
/// node that was down for a moment may be in service again, but it does not belong to this job any more.
std::vector<std::string> lost_nodes(const EndedStep& ended, const Environment& env) {
  const auto has = [](const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  const auto held =
      run_slurm_tool({"timeout", "30", "squeue", "--noheader", "--jobs=" + ended.job, "--format=%N"}, env);
  const auto names = trimmed(held.output);
  const auto left = names.empty() ? std::vector<std::string>{} : expanded_hosts(names);
  std::vector<std::string> lost;
  std::ranges::copy_if(ended.nodes, std::back_inserter(lost),
                       [&](const auto& node) { return !left.empty() && !has(left, node); });
  const auto told = run_slurm_tool(
      {"timeout", "30", "sinfo", "--noheader", "--Node", "--nodes=" + joined(ended.nodes, ","), "--format=%N %T"}, env);
  for (const auto& line : split(told.output, '\n')) {
    const auto words = split(trimmed(line), ' ');
    if (words.size() == 2 && is_out_of_service(words.back()) && !has(lost, words.front())) {
      lost.push_back(words.front());
    }
  }
  return lost;
}

/// Prints on standard output the nodes on which the step should run again. Prints nothing if it should not.
void decide_after_step(AfterStep& after, const Context& context) {
  auto& ended = after.ended;
  const auto number = [&](const char* name) { return context.env.get_int(name).value_or(0); };
  ended.job = context.env.get("SLURM_JOB_ID").value_or("");
  ended.start = number("SLURM_RESTART_COUNT");
  ended.restart = number("LOCKSTEP_RESTARTS");
  ended.nodes = expanded_hosts(after.nodes);
  ended.tasks = after.tasks_per_node * static_cast<int>(ended.nodes.size());
  ended.lost = lost_nodes(ended, context.env);
  if (!after.all.empty()) {
    // A spare node may be lost as well.
    auto others = ended;
    others.nodes = expanded_hosts(after.all);
    std::erase_if(others.nodes, [&](const auto& node) { return std::ranges::count(ended.nodes, node) > 0; });
    ended.spares = others.nodes;
    if (!others.nodes.empty()) {
      const auto lost = lost_nodes(others, context.env);
      std::erase_if(ended.spares, [&](const auto& node) { return std::ranges::count(lost, node) > 0; });
    }
  }
  const auto verdict = decide_and_keep_restart(ended, task_run_dir({}, context.env), after.most);
  if (verdict.reason.empty()) return;
  verdict.is_again ? context.log.warning(verdict.reason) : context.log.error(verdict.reason);
  if (verdict.is_again) print_text(joined(verdict.nodes, ",") + "\n");
}

/// Adds the hidden command `after-step`, which the script of a job with --restarts calls.
void add_after_step(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("after-step", "Decide whether a job's step is started again, and where");
  command->group("");
  auto after = std::make_shared<AfterStep>();
  command->add_option("--code", after->ended.code, "What srun ended with")->required();
  command->add_option("--seconds", after->ended.seconds, "How long the step lasted")->required();
  command->add_option("--nodes", after->nodes, "Where it ran")->required();
  command->add_option("--tasks-per-node", after->tasks_per_node, "Ranks of each node")->required();
  command->add_option("--most", after->most, "Restarts in one job")->required();
  command->add_option("--all", after->all, "All nodes of the job, spare ones too");
  command->add_option("--wanted", after->ended.wanted, "Nodes that the step should have");
  command->add_flag("--recipe", after->ended.is_recipe, "The step trains a recipe");
  command->add_flag("--must-have-all", after->ended.must_have_all, "The step cannot run on fewer nodes");
  command->callback([&context, after] { decide_after_step(*after, context); });
}

}  // namespace

void add_exec(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("exec", "Set up one task of a job, then run a program in its place");
  auto options = std::make_shared<ExecOptions>();
  command->add_option("--cluster", options->cluster, "The cluster's profile: a name, a file or auto")
      ->type_name("NAME");
  command->add_option("--run-dir", options->run_dir, "The run's folder (default: $LOCKSTEP_RUN_DIR)")->type_name("DIR");
  command->add_option("--again", options->again, "If CMD exits with 75, create this file and exit with 0")
      ->type_name("FILE");
  command->add_flag("--stay", options->stay, "Stay as CMD's parent, and record in the run folder how it ended");
  command
      ->add_option("--heal", options->heal,
                   "Start a recipe's rank again if it dies, at most TIMES in the run, and once within SECONDS")
      ->type_name("TIMES:SECONDS");
  command->add_flag("--rank-logs", options->rank_logs,
                    "Like --stay, and also write CMD's output to logs/rank-NNNN.log in the run folder");
  command->add_option("--on-sockets", options->on_sockets, "If NCCL falls back to sockets: warn, stop or ignore")
      ->type_name("WHAT");
  command
      ->add_option("--stuck-after", options->stuck_after,
                   "Warn of tasks and devices that have been idle for this long; 0 for never (default: 300)")
      ->type_name("SECONDS");
  command->add_flag("--report", options->report, "Print to standard error where each task runs");
  command->add_flag("--no-bind", options->no_bind, "Leave the CPU binding as the launcher set it");
  command->add_flag("--no-caches", options->no_caches, "Leave the cache folders where programs put them by default");
  command->add_flag("--no-agent", options->no_agent, "Start no agent on the node");
  command->add_flag("--dry-run", options->dry_run, "Print as JSON what would be set, and start nothing");
  context.program_takers.push_back(command);
  add_after_step(app, context);
  command->callback(
      [&context, options] { options->stays() ? run_and_keep(*options, context) : run(*options, context); });
}

}  // namespace lockstep::cli
