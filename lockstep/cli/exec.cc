// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/launch/affinity.h"
#include "lockstep/launch/node_folder.h"
#include "lockstep/launch/placement.h"
#include "lockstep/launch/program.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/task_environment.h"
#include "lockstep/observe/run_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct ExecOptions {
  std::string cluster = "auto";
  std::string run_dir;
  bool report = false;
  bool no_bind = false;
  bool no_caches = false;
  bool dry_run = false;
};

/// All that exec decides for one task.
struct Task {
  Placement at;
  TaskSettings settings;
  TaskFacts facts;
  Binding binding;
  Rendezvous rendezvous;
  fs::path run_dir;      ///< Empty where no run folder was given.
  fs::path node_folder;  ///< Empty outside a job.
};

TaskSettings settings_of(const std::string& cluster) {
  if (cluster == "auto" || cluster == "generic") return {};
  throw Error(ErrorKind::kUsage, "unknown cluster '" + cluster + "'", "known are: auto, generic");
}

fs::path run_dir_of(const ExecOptions& options, const Environment& env) {
  if (!options.run_dir.empty()) return fs::absolute(options.run_dir);
  const auto given = env.get("LOCKSTEP_RUN_DIR");
  return given ? fs::absolute(*given) : fs::path();
}

/// Caches are a help, not a need: without them the program does as it would by itself.
fs::path made_caches(const Task& task, const Log& log) {
  const fs::path caches = task.node_folder / "caches";
  try {
    make_private_folder(task.node_folder);
    make_private_folder(caches);
    TaskFacts facts = task.facts;
    facts.caches = caches;
    for (const auto& folder : cache_folders(task.at, facts)) make_private_folder(folder);
    return caches;
  } catch (const Error& error) {
    if (task.at.local_rank == 0) log.warning(std::string("caches stay where they are: ") + error.what());
    return {};
  }
}

std::string log_name(int rank) {
  const std::string digits = std::to_string(rank);
  return "nccl-" + std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits + ".log";
}

int threads_of(const Task& task, const Topology& topology, bool is_bound) {
  const int cores = topology.cores_of(task.binding.cpus);
  // Where nobody bound this task, its neighbours have the same cores.
  return is_bound ? cores : std::max(1, cores / task.at.local_world);
}

Task task_of(const ExecOptions& options, const Context& context) {
  Task task;
  task.at = placement_from(context.env);
  task.settings = settings_of(options.cluster);
  const Topology topology;
  const CpuSet allowed = cpus_of_process();
  const auto gpus = topology.gpus();
  if (!gpus.empty()) task.facts.gpu_maker = gpus.front().maker;
  if (options.no_bind) {
    task.binding = {.cpus = allowed, .why = "as the launcher set them (--no-bind)"};
  } else {
    task.binding = binding_of(task.at, context.env, task.settings, topology, allowed);
    if (!options.dry_run) task.binding = applied(task.binding, allowed);
  }
  const bool is_bound = task.binding.is_change || context.env.get("SLURM_CPUS_PER_TASK").has_value();
  task.facts.threads = threads_of(task, topology, is_bound);
  task.run_dir = run_dir_of(options, context.env);
  if (!task.at.job.empty()) task.node_folder = node_folder(task.at, context.env, task.settings);
  const fs::path meeting = (task.run_dir.empty() ? runs_root(context.env) : task.run_dir) / ".meeting";
  task.rendezvous = rendezvous_of(task.at, context.env, task.settings, meeting);
  task.facts.master = task.rendezvous.master;
  return task;
}

void make_folders(Task& task, const ExecOptions& options, const Log& log) {
  if (!options.no_caches && !task.node_folder.empty()) {
    if (options.dry_run) {
      task.facts.caches = task.node_folder / "caches";
    } else {
      task.facts.caches = made_caches(task, log);
    }
  }
  if (task.at.world == 1) return;
  if (!task.run_dir.empty()) {
    task.facts.nccl_log = task.run_dir / "logs" / log_name(task.at.rank);
    if (!options.dry_run) make_folder(task.run_dir / "logs");
  } else if (!task.facts.caches.empty()) {
    task.facts.nccl_log = task.node_folder / log_name(task.at.rank);
  }
}

/// What exec changes of the environment.
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

void print_plan(const Task& task, const TaskEnvironment& made, const Context& context) {
  nlohmann::json device = nullptr;
  if (task.at.device) device = *task.at.device;
  print_json({{"rank", task.at.rank},
              {"device", device},
              {"cluster", task.settings.cluster},
              {"cpus", list_of(task.binding.cpus)},
              {"binding", report_of(task.binding, Topology())},
              {"variables", changes(context.env, made.env)},
              {"notes", made.notes}});
}

void say(const Task& task, const TaskEnvironment& made, const ExecOptions& options, const Log& log) {
  if (task.at.rank == 0) {
    for (const auto& note : made.notes) log.info(note);
  }
  if (!task.binding.warning.empty()) log.warning("rank " + std::to_string(task.at.rank) + ": " + task.binding.warning);
  if (!options.report) return;
  log.info("rank " + std::to_string(task.at.rank) + ": " + report_of(task.binding, Topology()));
}

void run(const ExecOptions& options, const Context& context) {
  if (context.program.empty()) {
    throw Error(ErrorKind::kUsage, "no program was given", "write it after two dashes: srun lockstep exec -- program");
  }
  // Before anything is made or awaited: a misspelt name should not cost the others their patience.
  const auto program = options.dry_run ? context.program.front() : found_program(context.program.front(), context.env);
  Task task = task_of(options, context);
  make_folders(task, options, context.log);
  const auto made = task_environment(task.at, context.env, task.settings, task.facts);
  if (options.dry_run) {
    print_plan(task, made, context);
    return;
  }
  say(task, made, options, context.log);
  become(program, context.program, made.env);
}

}  // namespace

void add_exec(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("exec", "Set up one task of a job, then become any program: exec -- CMD…");
  auto options = std::make_shared<ExecOptions>();
  command->add_option("--cluster", options->cluster, "Whose settings to take")->type_name("NAME");
  command->add_option("--run-dir", options->run_dir, "The run's folder ($LOCKSTEP_RUN_DIR)")->type_name("DIR");
  command->add_flag("--report", options->report, "Say where each task runs, on standard error");
  command->add_flag("--no-bind", options->no_bind, "Leave the CPUs as the launcher set them");
  command->add_flag("--no-caches", options->no_caches, "Leave caches where they go by themselves");
  command->add_flag("--dry-run", options->dry_run, "Print as JSON what would be set, and start nothing");
  context.program_takers.push_back(command);
  command->callback([&context, options] { run(*options, context); });
}

}  // namespace lockstep::cli
