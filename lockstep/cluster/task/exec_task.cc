// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/exec_task.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/agent/cache_pack.h"
#include "lockstep/agent/left_overs.h"
#include "lockstep/base/cache_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/launch/accelerate_line.h"
#include "lockstep/launch/node_folder.h"
#include "lockstep/store/secret.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string node_name(const Placement& at) {
  const auto index = static_cast<std::size_t>(at.node_rank);
  if (index < at.hosts.size()) return at.hosts[index];
  const auto name = host_name();
  return name.empty() ? "node-" + std::to_string(at.node_rank) : split(name, '.').front();
}

SocketPolicy policy_of(const ExecOptions& options, const Environment& env) {
  const std::string word =
      options.on_sockets.empty() ? env.get("LOCKSTEP_ON_SOCKETS").value_or("warn") : options.on_sockets;
  if (word == "warn") return SocketPolicy::kWarn;
  if (word == "stop") return SocketPolicy::kStop;
  if (word == "ignore") return SocketPolicy::kIgnore;
  throw Error(ErrorKind::kUsage, "on sockets: '" + word + "', want warn, stop or ignore",
              "--on-sockets or LOCKSTEP_ON_SOCKETS says what to do if NCCL falls back to sockets");
}

double stuck_after(const ExecOptions& options, const Environment& env) {
  const auto own = env.get("LOCKSTEP_STUCK_AFTER");
  if (options.stuck_after.empty() && !own) return HealthLimits{}.window_s;
  const std::string text = options.stuck_after.empty() ? *own : options.stuck_after;
  const auto seconds = parsed_int<int>(text);
  if (seconds && *seconds >= 0) return *seconds;
  throw Error(
      ErrorKind::kUsage, "stuck after: '" + text + "', want a whole number of seconds",
      "--stuck-after or LOCKSTEP_STUCK_AFTER says after how long a node that does nothing is told of; 0: never");
}

/// If the folder cannot be made, the program still works as it would without Lockstep, only slower.
void make_node_folder(ExecTask& task, bool with_caches, const Log& log) {
  TaskFacts facts = task.facts;
  try {
    make_private_folder(task.node_folder);
    mark_in_use(task.node_folder).release();
    // A task registers before anything else. The agent of an earlier program in this step does not remove the folder
    // while a task is registered.
    enter_task(this_task(task.at.rank, task.at.local_rank), task.node_folder);
    if (!with_caches) return;
    facts.caches = task.node_folder / "caches";
    const CachePack pack(task.cache_pack, facts.caches);
    pack.warm([&log](const std::string& text) { log.warning(text); });
    const auto folders = cache_folders(task.at, facts);
    for (const auto& shared : folders.shared) make_private_folder(shared);
    pack.make_own(folders.own);
    task.facts.caches = facts.caches;
  } catch (const Error& error) {
    if (task.at.local_rank == 0) log.warning(std::string("caches stay where they are: ") + error.what());
    task.node_folder.clear();
  }
}

void place_folders(ExecTask& task, const ExecOptions& options, const Environment& env, const Log& log) {
  if (!task.at.job.empty()) {
    task.node_folder = node_folder(task.at, env, task.settings);
    if (!options.dry_run) {
      make_node_folder(task, !options.no_caches, log);
    } else if (!options.no_caches) {
      task.facts.caches = task.node_folder / "caches";
    }
  }
  if (!task.run_dir.empty() && !options.dry_run) make_folder(task.run_dir / "logs");
  if (task.at.world > 1) task.facts.nccl_log = nccl_log(task.run_dir, task.node_folder, task.at.rank);
}

void bind_task(ExecTask& task, const ExecOptions& options, const Environment& env, const Topology& topology) {
  task.allowed = cpus_of_process();
  if (options.no_bind) {
    task.binding.cpus = task.allowed;
    task.binding.why = "as the launcher set them (--no-bind)";
  } else {
    task.binding = binding_of(task.at, env, task.settings, topology, task.allowed);
    if (!options.dry_run) task.binding = applied(task.binding, task.allowed);
  }
  const int cores = topology.cores_of(task.binding.cpus);
  // If nobody has bound this task to cores, other tasks of the node run on the same cores.
  const bool is_its_own = task.binding.is_change || env.get("SLURM_CPUS_PER_TASK");
  task.facts.threads = is_its_own ? cores : std::max(1, cores / task.at.local_world);
}

/// Seconds since 1970.
double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Lockstep's ranks read the secret for the store's handshake in this folder. Rank 0 creates the secret when the ranks
// join.
void name_meeting(ExecTask& task, const Environment& env) {
  if (task.at.world == 1 || task.at.source == "lockstep") return;
  const std::string start =
      task.at.job.empty() ? "port-" + std::to_string(task.facts.master.port) : task.at.source + "-" + task.at.job;
  auto all = task.environment.env.all();
  all.erase("LOCKSTEP_STORE_SERVED");
  all["LOCKSTEP_MEETING"] = secret_folder(task.run_dir, "exec-" + start, env).string();
  task.environment.env = Environment(std::move(all));
}

/// Trackers such as wandb store files until a person uploads them. These files are put into the run folder, where
/// job.sh finds them.
void keep_trackers_files(TaskSettings& settings, const fs::path& run_dir) {
  // A brace in a path would be taken for the beginning of a {name}.
  if (run_dir.empty() || run_dir.string().find('{') != std::string::npos) return;
  settings.variables.always.try_emplace("WANDB_DIR", run_dir.string());
  settings.variables.always.try_emplace("MLFLOW_TRACKING_URI", "file:" + (run_dir / "mlruns").string());
}

}  // namespace

TaskSettings settings_of(const Profile& profile) {
  TaskSettings settings;
  settings.cluster = profile.name;
  settings.variables.always = {profile.env.begin(), profile.env.end()};
  settings.variables.on_one_node = {profile.env_one_node.begin(), profile.env_one_node.end()};
  settings.variables.on_several_nodes = {profile.env_many_nodes.begin(), profile.env_many_nodes.end()};
  if (!profile.storage.internet) {
    // On nodes without internet, trackers and model hubs would try for minutes before they give up. So they are set
    // offline.
    settings.variables.always.try_emplace("WANDB_MODE", "offline");
    settings.variables.always.try_emplace("HF_HUB_OFFLINE", "1");
  }
  settings.cpu_masks = profile.devices.cpu_masks;
  for (const auto index : profile.devices.order) settings.device_order.push_back(std::to_string(index));
  if (profile.devices.visible == "one") settings.devices = DeviceVisibility::kOne;
  if (profile.devices.visible == "all") settings.devices = DeviceVisibility::kAll;
  for (const auto& names : profile.network.interfaces) {
    for (auto& name : split(names, ',')) {
      // For this option the first letters of a name are enough.
      if (name.ends_with('*')) name.pop_back();
      settings.network.interfaces.push_back(std::move(name));
    }
  }
  settings.network.host_suffix = profile.network.host_suffix;
  settings.caches.node_local = profile.storage.node_local;
  settings.caches.variables = profile.cache_variables;
  return settings;
}

ExecTask prepare_task(const ExecOptions& options, const Environment& process, const Log& log) {
  ExecTask task;
  const auto profile = ProfileLibrary(process).chosen(options.cluster, HostFacts::of_process(process));
  task.settings = settings_of(profile);
  const auto env = with_device_order(process, task.settings);
  task.at = placement_from(env);
  task.sockets = policy_of(options, env);
  task.stuck_after_s = stuck_after(options, env);
  task.cache_pack = cache_folder(env) / "node-caches" / (task.settings.cluster + ".zip");
  task.node = node_name(task.at);
  task.run_dir = task_run_dir(options, env);
  if (!profile.storage.internet) keep_trackers_files(task.settings, task.run_dir);
  task.facts.starts_ranks = options.starts_ranks;
  const Topology topology;
  const auto gpus = topology.gpus();
  if (!gpus.empty()) task.facts.gpu_maker = gpus.front().maker;
  bind_task(task, options, env, topology);
  task.rendezvous = options.dry_run ? expected_rendezvous(task.at, env, task.settings)
                                    : rendezvous_of(task.at, env, task.settings, rendezvous_folder(task.run_dir, env));
  task.facts.master = task.rendezvous.master;
  place_folders(task, options, env, log);
  task.environment = task_environment(task.at, env, task.settings, task.facts);
  name_meeting(task, env);
  return task;
}

std::vector<std::string> started_command(const ExecTask& task, const Environment& process,
                                         std::vector<std::string> command) {
  const bool is_told =
      std::ranges::any_of(process.all(), [](const auto& variable) { return variable.first.starts_with("PET_"); });
  if (is_told || !task.facts.starts_ranks) return command;
  const auto& env = task.environment.env;
  return with_accelerate_nodes(std::move(command), {.nodes = task.at.world,
                                                    .node = task.at.rank,
                                                    .master = task.facts.master,
                                                    .devices = shown_devices(env).value_or(0),
                                                    .has_config = has_accelerate_config(env)});
}

fs::path task_run_dir(const ExecOptions& options, const Environment& env) {
  if (!options.run_dir.empty()) return fs::absolute(options.run_dir);
  const auto given = env.get("LOCKSTEP_RUN_DIR");
  return given ? fs::absolute(*given) : fs::path();
}

RankExit exit_record(const ExecTask& task, const Environment& env, const ProgramEnd& end) {
  const auto said = end.code == 0 ? std::vector<std::string>{} : end.last;
  return {.job = env.get("SLURM_JOB_ID").value_or(""),
          .start = task.at.restart,
          .restart = env.get_int("LOCKSTEP_RESTARTS").value_or(0),
          .rank = task.at.rank,
          .node = task.node,
          .code = end.code,
          .signal = end.signal,
          .time = now(),
          .last = rank_lines(said),
          .launched = launcher_failure(said)};
}

RankExit exit_record_before_start(const Environment& env, const Error& error) {
  const auto number = [&env](const char* name) { return parsed_int<int>(env.get(name).value_or("")).value_or(0); };
  return {.job = env.get("SLURM_JOB_ID").value_or(""),
          .start = number("SLURM_RESTART_COUNT"),
          .restart = number("LOCKSTEP_RESTARTS"),
          .rank = number("SLURM_PROCID"),
          .node = env.get("SLURMD_NODENAME").value_or(split(host_name(), '.').front()),
          .code = exit_code(error.kind()),
          .signal = 0,
          .time = now(),
          .last = {error.what()}};
}

void remove_folders_of_earlier_jobs(const ExecTask& task) {
  if (task.at.local_rank == 0 && !task.node_folder.empty()) remove_left_overs(task.node_folder);
}

void start_task_agent(const ExecTask& task, const Environment& env, const Log& log) {
  const auto self = this_task(task.at.rank, task.at.local_rank);
  const bool has_work = !task.run_dir.empty() || !task.node_folder.empty() || task.rendezvous.published.has_value();
  if (task.at.local_rank != 0 || !has_work) return;
  // All nodes compile the same code, so it is enough if one node saves its cache.
  const bool gives_back = task.at.node_rank == 0 && !task.facts.caches.empty();
  start_agent({.task = self,
               .local_world = task.at.local_world,
               .node = task.node,
               .cpus = task.allowed,
               .folders = {.run_dir = task.run_dir,
                           .node_folder = task.node_folder,
                           .published = task.rendezvous.published,
                           .caches = task.facts.caches,
                           .cache_pack = gives_back ? task.cache_pack : fs::path()},
               .network = {.sockets = task.sockets, .spans_nodes = task.at.nodes > 1},
               .health = {.window_s = task.stuck_after_s}},
              env, log);
}

}  // namespace lockstep
