// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/launch_checks.h"

#include <algorithm>
#include <array>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

/// A launch line, and the facts that the checks use.
struct Step {
  const ScriptContext& of;
  const LaunchLine& launch;
  SlurmShape shape;
  const NodeLauncher* node_launcher = nullptr;  ///< Of the line itself, or of the script that each task runs.
  const LaunchLine* inner = nullptr;            ///< The line that holds it.
};

bool is_slurm_rank(std::string_view name) {
  return name == "SLURM_PROCID" || name == "SLURM_LOCALID" || name == "SLURM_NODEID";
}

Step step_at(const ScriptContext& of, const LaunchLine& launch) {
  Step step{of, launch, of.step_shape(launch)};
  if (launch.node_launcher) {
    step.node_launcher = &*launch.node_launcher;
    step.inner = &launch;
  }
  if (launch.shell_script() || launch.shell_text()) {
    for (const auto& facts : of.file.task_scripts) {
      for (const auto& each : facts.launches) {
        if (!each.node_launcher) continue;
        step.node_launcher = &*each.node_launcher;
        step.inner = &each;
      }
    }
  }
  return step;
}

/// True if it is known what the program starts. A script that cannot be read may start ranks itself.
bool is_understood(const Step& step) {
  return std::ranges::none_of(step.of.file.unread_scripts,
                              [&](const auto& each) { return each.line == step.launch.line; });
}

void check_cores(const Step& step, ScriptFindings& findings) {
  if (step.launch.launcher != "srun" || step.launch.srun.has("cpus-per-task")) return;
  const auto job = step.of.file.shape();
  if (job.cpus_per_task.value_or(1) == 1 || step.of.file.batch.exported("SRUN_CPUS_PER_TASK") != nullptr) return;
  const auto bind = step.launch.srun.value("cpu-bind");
  // Masks choose each task's cores. With "none" a task may use all cores of the job.
  for (const auto* word : {"mask_cpu", "map_cpu", "mask_ldom", "map_ldom", "none"}) {
    if (bind.find(word) != std::string::npos) return;
  }
  const auto cores = std::to_string(*job.cpus_per_task);
  findings.push_back(
      {"script-srun-cores",
       Severity::kWarning,
       step.launch.line,
       {},
       "the job asks for --cpus-per-task=" + cores +
           ", but srun does not: since Slurm 22.05 it no longer takes that over, and each task runs on one core",
       "srun --cpus-per-task=" + cores + " …, or export SRUN_CPUS_PER_TASK=" + cores});
}

void check_size(const Step& step, ScriptFindings& findings) {
  const auto job = step.of.file.shape();
  const auto own = slurm_shape(step.launch.srun);
  if (own.nodes && job.max_nodes && *own.nodes > *job.max_nodes) {
    findings.push_back(
        {"script-step-too-large",
         Severity::kError,
         step.launch.line,
         {},
         "srun wants " + counted(*own.nodes, "node") + " of a job that has " + std::to_string(*job.max_nodes),
         "ask for as many in #SBATCH --nodes"});
  } else if (own.tasks && job.tasks && *own.tasks > *job.tasks) {
    findings.push_back(
        {"script-step-too-large",
         Severity::kError,
         step.launch.line,
         {},
         "srun wants " + counted(*own.tasks, "task") + " of a job that has " + std::to_string(*job.tasks),
         "ask for as many in #SBATCH --ntasks"});
  }
}

void check_start(const Step& step, ScriptFindings& findings) {
  // If the script also has a line with srun, a line without srun probably prepares something on purpose.
  const auto& launches = step.of.file.batch.launches;
  const auto has_launcher = [](const auto& each) { return !each.launcher.empty() && !each.is_utility(); };
  if (std::ranges::any_of(launches, has_launcher)) return;
  const bool starts_ranks = step.node_launcher != nullptr;
  const auto tasks = step.of.file.shape().job_tasks().value_or(2);
  if (starts_ranks ? !step.of.spans_nodes() : tasks < 2) return;
  findings.push_back(
      {"script-no-srun",
       Severity::kError,
       step.launch.line,
       {},
       "'" + step.launch.words.front().raw + "' is started without srun: it runs once, on the first node of the job",
       "srun " + std::string(starts_ranks ? "--ntasks-per-node=1 " : "") + step.launch.words.front().raw + " …"});
}

void check_devices(const Step& step, ScriptFindings& findings) {
  if (step.node_launcher != nullptr || !is_understood(step) || step.launch.launcher.empty()) return;
  auto tasks = step.shape.node_tasks();
  if (step.launch.mpirun_tasks && step.shape.job_nodes()) tasks = *step.launch.mpirun_tasks / *step.shape.job_nodes();
  const auto devices = step.shape.node_devices();
  if (!tasks || !devices || *devices == 0 || *tasks == *devices || step.shape.devices_per_task) return;
  const bool is_idle = *tasks < *devices;
  findings.push_back(
      {"script-tasks-devices",
       step.of.spans_nodes() || !is_idle ? Severity::kWarning : Severity::kNote,
       step.launch.line,
       {},
       counted(*tasks, "task") + " and " + counted(*devices, "device") + " on each node: " +
           (is_idle ? counted(*devices - *tasks, "device") + " idle, unless the program starts ranks itself"
                    : "ranks share a device, which NCCL refuses"),
       "--ntasks-per-node=" + std::to_string(*devices) + ", one task for each device"});
}

const LaunchWord* flag_of(const NodeLauncher& launcher, std::initializer_list<const char*> names) {
  for (const auto* name : names) {
    const auto found = launcher.flags.find(name);
    if (found != launcher.flags.end()) return &found->second;
  }
  return nullptr;
}

void check_node_launcher_nodes(const Step& step, ScriptFindings& findings) {
  const auto& launcher = *step.node_launcher;
  if (launcher.name == "deepspeed" || !step.of.spans_nodes() || step.launch.launcher.empty()) return;
  const auto* nodes = flag_of(launcher, {"nnodes", "num-machines"});
  const bool is_config = flag_of(launcher, {"config-file"}) != nullptr;
  const auto has_variable = [&](const char* name) { return step.of.file.task_setting(name) != nullptr; };
  const auto count = nodes != nullptr && nodes->value.is_known ? parsed_int<int>(nodes->value.text) : std::nullopt;
  const auto wanted = step.shape.job_nodes();
  const std::string want = wanted ? std::to_string(*wanted) : "$SLURM_JOB_NUM_NODES";
  const std::string flag = launcher.name == "accelerate" ? "--num_machines=" : "--nnodes=";
  if ((nodes == nullptr && !has_variable("PET_NNODES") && !is_config) || (count && wanted && *count != *wanted)) {
    findings.push_back({"script-launcher-nodes",
                        Severity::kError,
                        step.launch.line,
                        {},
                        launcher.name + " is told of " +
                            (nodes == nullptr ? "one node" : counted(count.value_or(1), "node")) +
                            ", but the job has " + want + ": each node trains a model of its own",
                        flag + want + " with an address to meet at; `lockstep submit` sets both"});
    return;
  }
  const bool meets = flag_of(launcher, {"rdzv-endpoint", "master-addr", "main-process-ip"}) != nullptr || is_config;
  if (meets || has_variable("PET_MASTER_ADDR") || has_variable("PET_RDZV_ENDPOINT")) return;
  findings.push_back({"script-launcher-nodes",
                      Severity::kError,
                      step.launch.line,
                      {},
                      launcher.name + " is told no address to meet at: each node waits for itself",
                      "--rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT"});
}

void check_node_launcher(const Step& step, ScriptFindings& findings) {
  if (step.node_launcher == nullptr || step.launch.block == ShellBlock::kLoop) return;
  const auto& launcher = *step.node_launcher;
  const auto tasks = step.shape.node_tasks();
  const auto devices = step.shape.node_devices();
  if (step.launch.launcher == "srun" && tasks.value_or(1) > 1) {
    findings.push_back({"script-nested-launcher",
                        Severity::kError,
                        step.launch.line,
                        {},
                        "srun starts " + std::to_string(*tasks) + " tasks on each node, and each starts " +
                            launcher.name + ", which starts ranks of its own",
                        "--ntasks-per-node=1 with " + launcher.name + ", or one task for each device without it"});
  }
  check_node_launcher_nodes(step, findings);
  const auto* ranks = flag_of(launcher, {"nproc-per-node"});
  const auto count = ranks != nullptr && ranks->value.is_known ? parsed_int<int>(ranks->value.text) : std::nullopt;
  const bool is_default =
      launcher.name == "torchrun" && ranks == nullptr && step.of.file.task_setting("PET_NPROC_PER_NODE") == nullptr;
  const auto found = is_default ? std::optional(1) : count;
  if (!found || !devices || *devices == 0 || *found == *devices) return;
  findings.push_back(
      {"script-tasks-devices",
       Severity::kWarning,
       step.launch.line,
       {},
       launcher.name + " starts " + counted(*found, "rank") + " on each node, which has " + counted(*devices, "device"),
       "--nproc_per_node=" + std::to_string(*devices)});
}

/// The batch shell replaces $SLURM_PROCID before srun sees it, and there it is 0.
void check_early(const Step& step, ScriptFindings& findings) {
  if (step.launch.launcher.empty() || step.shape.job_tasks() == 1) return;
  for (const auto& word : step.launch.words) {
    for (const auto& name : names_in(word.raw)) {
      if (!is_slurm_rank(name) || !expands_name(word.raw, name)) continue;
      findings.push_back({"script-expanded-early",
                          Severity::kError,
                          step.launch.line,
                          {},
                          "the batch script replaces $" + name + " before the tasks start: it is 0 for all of them",
                          "srun bash -c '… $" + name + " …', in single quotes"});
      return;
    }
  }
}

void check_binding(const Step& step, ScriptFindings& findings) {
  if (step.launch.launcher != "srun" || step.node_launcher != nullptr) return;
  const auto& profile = step.of.profile;
  const auto has = [&](const char* name) { return step.launch.srun.has(name) || step.of.file.options.has(name); };
  const bool site_binds =
      std::ranges::any_of(profile.srun.whole_nodes, [](const auto& each) { return each.starts_with("--cpu-bind="); });
  const auto tasks = step.shape.node_tasks();
  const bool is_one_each = tasks && tasks == step.shape.node_devices() && *tasks > 1;
  if (!is_one_each) return;
  // With --gpu-bind=closest each task has the device that is near the cores which Slurm gave it.
  const bool is_bound = has("cpu-bind") || has("gpu-bind");
  const bool has_all = step.of.has_whole_nodes() && *tasks == profile.devices.count;
  if (has_all && site_binds && !is_bound) {
    findings.push_back(
        {"script-no-cpu-bind",
         Severity::kWarning,
         step.launch.line,
         {},
         "no --cpu-bind: on " + profile.name + " tasks then run on cores that are far from their devices",
         "srun --cpu-bind=mask_cpu:" + joined(profile.devices.cpu_masks, ",")});
  }
}

void check_hidden_peers(const Step& step, ScriptFindings& findings) {
  const bool is_asked = step.launch.srun.has("gpus-per-task") || step.of.file.options.has("gpus-per-task");
  const bool is_open = step.launch.srun.value("gpu-bind") == "none";
  if (!is_asked || is_open || step.of.profile.devices.backend != "cuda" || step.shape.node_tasks().value_or(2) < 2)
    return;
  findings.push_back(
      {"script-hidden-peers",
       Severity::kWarning,
       step.launch.line,
       {},
       "--gpus-per-task shows each task its own device alone: ranks of a node cannot copy from device to device",
       "--gpus-per-node for the job, --gpu-bind=none for srun"});
}

void check_export(const Step& step, ScriptFindings& findings) {
  const auto& file = step.of.file;
  const auto* option = file.options.find("export");
  if (option == nullptr || option->value != "NONE" || step.launch.launcher != "srun" || step.launch.srun.has("export"))
    return;
  const auto& settings = file.batch.settings;
  if (std::ranges::find(settings, "SLURM_EXPORT_ENV", &ScriptSetting::name) != settings.end()) return;
  findings.push_back({"script-export-none",
                      Severity::kError,
                      step.launch.line,
                      {},
                      "with #SBATCH --export=NONE srun hands nothing on either: modules and variables of the script do "
                      "not reach the tasks",
                      "srun --export=ALL …, or `unset SLURM_EXPORT_ENV` above"});
}

void check_python(const Step& step, ScriptFindings& findings) {
  const auto& file = step.of.file;
  if (!is_understood(step)) return;
  // If each task runs a script, Python is named in a line of that script.
  const LaunchLine* line = &step.launch;
  const ScriptFacts* inside = nullptr;
  for (const auto& facts : file.task_scripts) {
    for (const auto& each : facts.launches) {
      if (!each.is_python() && !each.node_launcher) continue;
      line = &each;
      inside = &facts;
    }
  }
  if (!line->is_python() && !line->node_launcher) return;
  const auto& program = line->program;
  const bool is_bare = line->node_launcher || program.front().value.text.find('/') == std::string::npos;
  const auto activates = [](const ScriptFacts& facts) {
    return !facts.activations.empty() || facts.variables.contains("PATH");
  };
  const bool has_environment =
      activates(file.batch) || (inside != nullptr && (activates(*inside) || !inside->unread.empty())) ||
      !step.launch.container.image.empty() || !line->container.image.empty() || !step.launch.container.runtime.empty();
  const auto where = inside == nullptr ? std::string() : inside->file;
  if (is_bare && !has_environment) {
    findings.push_back({"script-python-unset", Severity::kWarning, line->line, where,
                        "the script loads no module and activates no environment: the tasks get the Python of the "
                        "shell that calls sbatch",
                        "activate the environment in the script, or name its python by the full path"});
  }
  const bool has_flag = std::ranges::any_of(program, [](const auto& word) { return word.value.text == "-u"; });
  if (has_flag || file.task_setting("PYTHONUNBUFFERED") != nullptr) return;
  findings.push_back(
      {"script-buffered", Severity::kNote, line->line, where,
       "Python keeps its output back in blocks: the log lags, and what is kept is lost when the job is killed",
       "python -u …, or export PYTHONUNBUFFERED=1"});
}

}  // namespace

void check_script_launch(const ScriptContext& of, ScriptFindings& findings) {
  const auto& launches = of.file.batch.launches;
  const auto programs = std::ranges::count_if(launches, [](const auto& each) { return !each.is_utility(); });
  for (const auto& launch : launches) {
    if (launch.is_utility()) continue;
    const auto step = step_at(of, launch);
    check_size(step, findings);
    check_cores(step, findings);
    check_start(step, findings);
    if (&launch == of.file.main_launch()) check_devices(step, findings);
    check_node_launcher(step, findings);
    check_early(step, findings);
    check_binding(step, findings);
    check_hidden_peers(step, findings);
    check_export(step, findings);
    if (launch.is_background && !of.file.batch.waits) {
      findings.push_back({"script-no-wait",
                          Severity::kError,
                          launch.line,
                          {},
                          "the line ends with & and no `wait` follows: the script ends at once, and the job with it",
                          "add a line `wait` at the end"});
    }
  }
  if (const auto* launch = of.file.main_launch(); programs > 0 && launch != nullptr) {
    check_python(step_at(of, *launch), findings);
    if (programs == 1) return;
    findings.push_back({"script-several-launches",
                        Severity::kNote,
                        launch->line,
                        {},
                        "the script starts " + std::to_string(programs) + " programs; ours starts the last of them",
                        "submit each as a job of its own"});
    return;
  }
  findings.push_back({"script-no-launch",
                      Severity::kNote,
                      0,
                      {},
                      "no line was found that starts a program by srun, mpirun, torchrun or python",
                      "what the script runs was not looked at"});
}

}  // namespace lockstep
