// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/script_parts.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/clock.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/job/batch_script.h"
#include "lockstep/cluster/job/container_command.h"
#include "lockstep/cluster/job/data_stage.h"
#include "lockstep/cluster/job/python_environment.h"
#include "lockstep/cluster/job/stage.h"

namespace lockstep {
namespace {

/// Returns a line `#SBATCH --flag=value`, with the value quoted as sbatch reads such lines.
std::string directive(const std::string& flag) {
  const auto equals = flag.find('=');
  if (equals == std::string::npos) return "#SBATCH " + flag;
  return "#SBATCH " + flag.substr(0, equals + 1) + sbatch_quoted(flag.substr(equals + 1));
}

std::vector<std::string> conda_lines(const std::string& environment) {
  return {"eval \"$(conda shell.bash hook)\"", "conda activate " + shell_quoted(environment)};
}

/// Returns the commands that each task runs before the program.
std::vector<std::string> task_lines(const JobPlan& plan) {
  std::vector<std::string> lines = activation_lines(plan.stage);
  if (plan.has_container() && !plan.conda.empty()) {
    const auto conda = conda_lines(plan.conda);
    lines.insert(lines.end(), conda.begin(), conda.end());
  }
  lines.insert(lines.end(), plan.setup.begin(), plan.setup.end());
  return lines;
}

void add_modules(ScriptText& out, const JobPlan& plan) {
  if (!plan.before.empty()) {
    out.paragraph("Software.");
    out.lines(plan.before);
  }
  if (!plan.has_container() && !plan.conda.empty()) {
    out.paragraph("The conda environment: tasks get it from here, instead of activating it one by one.");
    out.lines(conda_lines(plan.conda));
  }
}

void add_setup_once(ScriptText& out, const JobPlan& plan) {
  if (plan.setup_once.empty()) return;
  out.paragraph("What the job runs once: tasks get what it exports.");
  out.lines(plan.setup_once);
}

/// Adds shell functions that ask a busy controller again. Each try lasts Slurm's MessageTimeout, 10 s unless the site
/// has another. srun ends with SLURM_EXIT_ERROR if Slurm fails before a task starts. Source: srun(1); tried with a
/// controller that was stopped.
void add_patience(ScriptText& out, const JobPlan& plan) {
  out.paragraph("Slurm's controller may be busy for a while. Then it is asked again.");
  if (plan.can_requeue || plan.queue.signal) {
    out.line("again() {");
    out.line("  local try");
    out.line("  for try in 1 2 3 4 5; do");
    out.line("    if \"$@\"; then return 0; fi");
    out.line("    [ \"$try\" = 5 ] || sleep 5");
    out.line("  done");
    out.line("  return 1");
    out.line("}");
  }
  out.line("srun() {  # 199: Slurm has started no task");
  out.line("  local code try");
  out.line("  for try in 1 2 3 4 5; do");
  out.line("    code=0");
  out.line("    SLURM_EXIT_ERROR=199 command srun \"$@\" || code=$?");
  out.line("    [ \"$code\" = 199 ] || return \"$code\"");
  out.line("    [ \"$try\" = 5 ] || sleep 5");
  out.line("  done");
  out.line("  return 4");
  out.line("}");
}

/// The job's limit may have been changed since the job was submitted, so the script asks Slurm. If Slurm does not
/// answer, the limit counts from the script's start.
void add_job_end(ScriptText& out, const JobPlan& plan) {
  const auto limit = std::to_string(plan.queue.time->count());
  out.paragraph("When the job's time is up: a training stops and saves before that.");
  out.line("end=$(squeue --noheader --jobs=\"$SLURM_JOB_ID\" --format=%e 2> /dev/null) || end=");
  out.line("LOCKSTEP_JOB_END=$(date -d \"${end:-now + $((" + limit +
           " - SECONDS)) seconds}\" +%s) || LOCKSTEP_JOB_END=");
  out.line("export LOCKSTEP_JOB_END");
}

void add_environment(ScriptText& out, const JobPlan& plan) {
  if (!plan.env.empty()) {
    out.paragraph("Network and devices, by the profile of " + plan.cluster + ".");
    for (const auto& [name, value] : plan.env) out.line("export " + name + "=" + shell_expanding(value));
  }
  if (!plan.downloads.empty()) {
    out.paragraph("Models and data sets that a program downloads: the home folder is too small for them.");
    for (const auto& [name, value] : plan.downloads) out.line("export " + name + "=" + shell_quoted(value));
  }
  if (!plan.own_env.empty()) {
    out.paragraph("Your own.");
    for (const auto& each : plan.own_env) {
      const auto equals = each.find('=');
      out.line("export " + each.substr(0, equals + 1) + shell_expanding(each.substr(equals + 1)));
    }
  }
  out.paragraph("Where this run's logs and snapshots lie, for lockstep and for the program.");
  out.line("export LOCKSTEP_RUN_DIR=" + shell_quoted(plan.paths.run_dir.string()));
  add_job_end(out, plan);
  if (!plan.paths.trainer.empty()) out.line("export LOCKSTEP_TRAINER=" + shell_quoted(plan.paths.trainer.string()));
  if (!plan.paths.profile_path.empty()) {
    out.line("export LOCKSTEP_PROFILE_PATH=" + shell_quoted(plan.paths.profile_path));
  }
}

void add_container(ScriptText& out, const JobPlan& plan) {
  if (!plan.has_container()) return;
  out.paragraph("Into the container goes nothing of the Python, and none of the libraries, outside.");
  out.line("for name in $(compgen -e); do");
  out.line(
      "  case $name in CONDA_* | _CE_* | PYTHON* | VIRTUAL_ENV* | LD_LIBRARY_PATH | LD_PRELOAD) unset \"$name\" ;; "
      "esac");
  out.line("done");
  if (const auto lines = device_flag_lines(plan); !lines.empty()) {
    out.paragraph("The image needs the driver's libraries of an NVIDIA node, or ROCm if it has none of its own.");
    out.lines(lines);
  }
  out.line("container=(");
  for (const auto& words : container_command(plan)) out.line("  " + words);
  out.line(")");
}

void add_setup(ScriptText& out, const JobPlan& plan) {
  auto lines = task_lines(plan);
  if (lines.empty()) return;
  out.paragraph(plan.has_container() ? "What each task runs in the container before its program."
                                     : "What each task runs before its program.");
  lines.insert(lines.begin(), "set -e");
  lines.emplace_back("exec \"$@\"");
  out.quoted_lines("setup", lines);
}

std::string with_setup(const JobPlan& plan) {
  return task_lines(plan).empty() ? std::string() : "bash -c \"$setup\" task ";
}

/// Returns the program's first word for a shell. The modules and the conda environment above determine which program a
/// name means. Looking it up here makes it the same for all tasks. In a container, or after set-up commands of each
/// task, each task looks it up.
std::string program_word(const JobPlan& plan) {
  const auto& name = plan.program.command.front();
  const auto word = shell_quoted(name);
  if (plan.has_container() || !task_lines(plan).empty() || name.find('/') != std::string::npos) return word;
  return "$(type -P " + word + " || echo " + word + ")";
}

bool is_python(const JobPlan& plan) {
  const auto name = std::filesystem::path(plan.program.command.front()).filename().string();
  return !plan.program.is_recipe && name.starts_with("python");
}

/// True if the program is a script that a Python interpreter runs, such as a launcher from a Python environment, or the
/// user's own. A launcher that starts a program which is not Python does not count.
bool is_python_script(const JobPlan& plan) {
  const auto& command = plan.program.command;
  const auto name = std::filesystem::path(command.front()).filename().string();
  const bool starts_others =
      std::ranges::any_of(command, [](const auto& word) { return word == "--no-python" || word == "--no_python"; });
  return !plan.program.is_recipe && !is_python(plan) && !starts_others &&
         (is_open_python(name) || name.ends_with(".py"));
}

/// Adds shell lines that find a script's Python interpreter on the node, and then run it. The script's first line names
/// that Python, or it is beside the script: pip writes a first line for /bin/sh if the path is long or has a blank.
void add_python_of_script(ScriptText& out) {
  out.line("# Which Python runs the program, its first line says, or the folder that it lies in.");
  out.quoted_lines("python", {"file=$(command -v \"$0\") || exit 127", "read -r line < \"$file\" || line=",
                              "case $line in '#!'*python*) exec ${line#??} \"$@\" ;; esac",
                              "[ ! -x \"${file%/*}/python\" ] || exec \"${file%/*}/python\" \"$@\""});
}

/// Returns a command that succeeds only if the program exists and, as far as that can be tried, starts. In a job with
/// devices, `lockstep doctor` passes a Python interpreter its arguments.
std::string smoke_test_command(const JobPlan& plan) {
  if (is_python(plan)) return plan.size.devices > 0 ? "\"$program\"" : "\"$program\" -c ''";
  if (is_python_script(plan) && plan.size.devices > 0) return "sh -c \"$python\" \"$program\"";
  const std::string output = plan.size.devices > 0 ? "" : " > /dev/null";
  if (plan.program.is_recipe) return "\"$program\" --version" + output;
  return "sh -c 'command -v \"$0\"' \"$program\"" + output;
}

/// Returns srun for a short step beside the ranks' step. It has one task on each of `count` nodes, and takes no core,
/// memory or device from the ranks.
///
/// Slurm frees the resources of a step a moment after its srun has returned. A next step that finds too little may be
/// refused for good, since Slurm 22.05 treats cores that are not free yet as if they never would be
/// (src/slurmctld/step_mgr.c, _pick_step_nodes). `--overlap` exists since Slurm 20.11.
std::string short_step(const JobPlan& plan, const std::string& count, const std::string& cores = "") {
  return "srun --overlap --nodes=" + count + " --ntasks=" + count + " --ntasks-per-node=1" + cores +
         " --cpu-bind=none" + step_flags(plan);
}

/// If the job requested a range of nodes, only Slurm knows the number of nodes.
std::string all_nodes(const JobPlan& plan) {
  return plan.size.is_range() ? "\"$SLURM_JOB_NUM_NODES\"" : std::to_string(plan.size.nodes);
}

constexpr const char* kOneCore = " --cpus-per-task=1";

void add_not_started(ScriptText& out, const JobPlan& plan) {
  const std::string where = plan.has_container() ? "in the container on the compute node" : "on the compute node";
  out.line("  echo \"lockstep: error: '$program' was not found, or does not start, " + where + "\" >&2");
  out.line(
      "  echo \"  hint: name it by its full path there, or load what it needs in [cluster] setup or modules\" >&2");
  out.line("  exit 4");
}

/// Starts the program once, and checks each node of a job with devices. A faulty node prints the reason. Its name comes
/// back through srun, which needs no file system, behind a marker, since a site's task prolog may print too.
void add_node_look(ScriptText& out, const JobPlan& plan) {
  const int nodes = plan.size.nodes;
  out.paragraph((nodes > 1 ? "Each node looks" : "The node looks") +
                std::string(" at its devices and links first, 2 s at most. One task tries the program:"));
  out.line(std::string("# one that is not there, or does not start, fails once") +
           (plan.size.world() > 1 ? ", not " + std::to_string(plan.size.world()) + " times." : "."));
  out.line("program=" + staged_program(plan.stage).value_or(program_word(plan)));
  if (is_python_script(plan)) add_python_of_script(out);
  out.line("code=0");
  // Without this flag a site's default may end the checks of the other nodes as soon as one node fails.
  out.line("sick=$(" + short_step(plan, all_nodes(plan), kOneCore) + " --kill-on-bad-exit=0 \\");
  out.line("  " + shell_quoted(plan.paths.lockstep.string()) + " doctor --cluster " + shell_quoted(plan.paths.profile) +
           " --node" + (is_python(plan) || is_python_script(plan) ? " --torch" : "") + " -- \\");
  out.line("  " + wrapped_alone(plan) + smoke_test_command(plan) + " |");
  out.line("  sed -n 's/^sick node: //p' | sort | paste -s -d,) || code=$?");
  out.line("if [ -n \"$sick\" ]; then");
  out.line("  echo \"lockstep: error: the tasks were not started, for what is said above of $sick\" >&2");
  out.line(
      "  echo \"  hint: leave that out: lockstep submit --sbatch=--exclude=$sick …; or go on: "
      "--env LOCKSTEP_DOCTOR=off\" >&2");
  out.line("  exit 4");
  out.line("fi");
  out.line("[ \"$code\" != 4 ] || exit 4");
  out.line("[ \"$code\" = 0 ] || {");
  add_not_started(out, plan);
  out.line("}");
}

/// Adds the flags that set the number of tasks on a node.
///
/// For a range of nodes, sbatch counts tasks by --ntasks-per-node and the fewest nodes, and gives the job no more nodes
/// than these need (tried with Slurm 22.05). So a range has one task on each node, with all cores.
void add_tasks(std::vector<std::string>& flags, const ResolvedShape& size) {
  const int cores = size.cores_per_task;
  if (size.is_range()) {
    flags.push_back(cores > 0 ? "--cpus-per-task=" + std::to_string(cores * size.tasks)
                              : "--mincpus=" + std::to_string(size.tasks));
    return;
  }
  flags.push_back("--ntasks-per-node=" + std::to_string(size.tasks));
  if (cores > 0) flags.push_back("--cpus-per-task=" + std::to_string(cores));
}

}  // namespace

std::vector<std::string> allocation_flags(const JobPlan& plan) {
  const auto& size = plan.size;
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) flags.push_back(std::string(flag) + "=" + value);
  };
  add("--job-name", plan.program.name);
  add("--account", plan.queue.account);
  add("--partition", plan.queue.partition);
  add("--qos", plan.queue.qos);
  add("--time", hh_mm_ss(*plan.queue.time));
  add("--nodes", size.nodes_text(plan.queue.spares));
  if (!plan.devices_flag.empty()) flags.push_back(plan.devices_flag);
  add_tasks(flags, size);
  add("--mem", size.memory);
  add("--chdir", plan.paths.work_dir.string());
  return flags;
}

void add_head(ScriptText& out, const JobPlan& plan) {
  out.line("# Written by `lockstep submit`; `sbatch " + shell_quoted(script_path(plan).string()) + "` runs it again.");
  for (const auto& flag : allocation_flags(plan)) out.line(directive(flag));
  out.line(directive("--output=" + sbatch_file_name(log_path(plan).string())));
  out.line(directive("--open-mode=append"));
  if (is_warned_program(plan)) {
    out.line(directive("--signal=B:USR1@" + std::to_string(plan.signal_lead.count())));
  }
  out.line(directive(plan.can_requeue ? "--requeue" : "--no-requeue"));
  // Without --no-kill the whole job ends when the first node is lost.
  if (plan.queue.restarts > 0) out.line(directive("--no-kill"));
  if (plan.exports_nothing) out.line(directive("--export=NONE"));
  for (const auto& flag : plan.sbatch) out.line(directive(flag));
  out.line("");
  out.line("set -eo pipefail");
  out.line("unset \"${!SQUEUE_@}\" \"${!SCANCEL_@}\" SLURM_TIME_FORMAT  # a person's own filters and formats");
  out.line(
      "echo \"== job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST, $(date -Is)\"");
  out.paragraph("How this script ends, for `lockstep ls`, `follow` and `report`.");
  out.line("# shellcheck disable=SC2317  # Only traps call it.");
  out.line("keep_end() {");
  out.line("  printf '{\"job\":\"%s\",\"start\":%d,\"code\":%d,\"time\":%d}\\n' \"$SLURM_JOB_ID\" \\");
  out.line("    \"${SLURM_RESTART_COUNT:-0}\" \"$1\" \"$(date +%s)\" >> " +
           shell_quoted((plan.paths.run_dir / "exits.jsonl").string()) + " || true");
  out.line("}");
  out.line("trap 'keep_end $?' EXIT");
  // Without this, the shell would end at once, and the trap would see a status of 0.
  out.line("trap 'exit 143' TERM");
  add_patience(out, plan);
}

void add_surroundings(ScriptText& out, const JobPlan& plan, const std::string& on_exit) {
  add_modules(out, plan);
  add_setup_once(out, plan);
  add_environment(out, plan);
  add_staging(out, plan, add_data(out, plan, on_exit));
  add_container(out, plan);
  add_setup(out, plan);
}

void add_smoke_test(ScriptText& out, const JobPlan& plan) {
  if (plan.size.devices > 0) return add_node_look(out, plan);
  const auto world = plan.size.world();
  out.paragraph("One task on one node first: a program that is not there, or does not start, fails once" +
                (world > 1 ? ", not " + std::to_string(world) + " times." : std::string(".")));
  out.line("program=" + staged_program(plan.stage).value_or(program_word(plan)));
  out.line(short_step(plan, "1", kOneCore) + " \\");
  out.line("  " + wrapped_alone(plan) + smoke_test_command(plan) + " || {");
  out.line("  [ $? != 4 ] || exit 4");
  add_not_started(out, plan);
  out.line("}");
}

std::string wrapped_alone(const JobPlan& plan) {
  return (plan.has_container() ? "\"${container[@]}\" " : "") + with_setup(plan);
}

std::string wrapped(const JobPlan& plan, const std::string& exec_options) {
  return (plan.has_container() ? std::string("\"${container[@]}\" ") : std::string()) +
         shell_quoted(plan.paths.lockstep.string()) + " exec --cluster " + shell_quoted(plan.paths.profile) +
         exec_options + " -- " + with_setup(plan);
}

std::string arguments_of(const JobPlan& plan) {
  std::string text;
  for (std::size_t i = 1; i < plan.program.command.size(); ++i) {
    const auto& word = plan.program.command[i];
    text += word == plan.paths.run_dir ? " \"$LOCKSTEP_RUN_DIR\"" : " " + shell_quoted(word);
  }
  return text;
}

std::string step_flags(const JobPlan& plan) { return plan.exports_nothing ? " --export=ALL" : ""; }

std::string step_on_each_node(const JobPlan& plan) { return short_step(plan, all_nodes(plan)); }

bool is_warned_program(const JobPlan& plan) {
  return !plan.program.is_recipe && (plan.queue.chain > 1 || plan.queue.signal);
}

}  // namespace lockstep
