// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/batch_script.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/container_command.h"
#include "lockstep/cluster/shell_text.h"

namespace lockstep {
namespace {

/// What `lockstep stop` leaves for the script: the run is not to go on.
const std::string kStopMark = "\"$LOCKSTEP_RUN_DIR/stop-$SLURM_JOB_ID\"";

/// Lines that grow; a paragraph is set off by an empty line and opens with a comment.
class Text {
 public:
  void line(std::string_view text) { out_.append(text).append("\n"); }
  void lines(const std::vector<std::string>& all) {
    for (const auto& each : all) line(each);
  }
  void paragraph(std::string_view comment) {
    line("");
    line(std::string("# ").append(comment));
  }
  void directive(std::string_view flag, std::string_view value = {}) {
    std::string text = "#SBATCH " + std::string(flag);
    if (!value.empty()) text += "=" + sbatch_quoted(value);
    line(text);
  }
  std::string take() && { return std::move(out_); }

 private:
  std::string out_;
};

std::string spelt(int count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::string summary(const JobPlan& plan) {
  const auto& size = plan.size;
  std::string text =
      plan.program.name + ": " + spelt(size.nodes, "node") + " of " + plan.cluster + ", " + spelt(size.world(), "task");
  const bool is_one = size.world() == 1;
  std::vector<std::string> parts;
  if (size.devices > 0) parts.push_back(spelt(size.devices / size.tasks, "device"));
  if (size.cores_per_task > 0) parts.push_back(spelt(size.cores_per_task, "core"));
  if (!parts.empty()) text += (is_one ? " with " : ", each with ") + joined(parts, " and ");
  return text + ".";
}

bool is_chained_program(const JobPlan& plan) { return !plan.program.is_recipe && plan.queue.chain > 1; }

/// "--flag" or "--flag=value".
void add_flag(Text& out, const std::string& flag) {
  const auto equals = flag.find('=');
  if (equals == std::string::npos) {
    out.directive(flag);
  } else {
    out.directive(flag.substr(0, equals), flag.substr(equals + 1));
  }
}

void add_directives(Text& out, const JobPlan& plan) {
  const auto& size = plan.size;
  out.directive("--job-name", plan.program.name);
  if (!plan.queue.account.empty()) out.directive("--account", plan.queue.account);
  if (!plan.queue.partition.empty()) out.directive("--partition", plan.queue.partition);
  if (!plan.queue.qos.empty()) out.directive("--qos", plan.queue.qos);
  out.directive("--time", hh_mm_ss(*plan.queue.time));
  out.directive("--nodes", std::to_string(size.nodes));
  if (!plan.devices_flag.empty()) add_flag(out, plan.devices_flag);
  out.directive("--ntasks-per-node", std::to_string(size.tasks));
  if (size.cores_per_task > 0) out.directive("--cpus-per-task", std::to_string(size.cores_per_task));
  if (!size.memory.empty()) out.directive("--mem", size.memory);
  out.directive("--chdir", plan.places.work_dir.string());
  out.directive("--output", sbatch_file_name(log_path(plan).string()));
  out.directive("--open-mode", "append");
  if (plan.program.is_recipe && plan.signal_lead.count() > 0) {
    out.directive("--signal", "USR1@" + std::to_string(plan.signal_lead.count()));
  } else if (is_chained_program(plan)) {
    out.directive("--signal", "B:USR1@" + std::to_string(plan.signal_lead.count()));
  }
  out.directive(plan.can_requeue ? "--requeue" : "--no-requeue");
  if (plan.exports_nothing) out.directive("--export", "NONE");
  for (const auto& flag : plan.sbatch) add_flag(out, flag);
}

std::vector<std::string> conda_lines(const std::string& environment) {
  return {"eval \"$(conda shell.bash hook)\"", "conda activate " + shell_quoted(environment)};
}

/// What each task runs before the program.
std::vector<std::string> task_lines(const JobPlan& plan) {
  std::vector<std::string> lines;
  if (plan.has_container() && !plan.conda.empty()) lines = conda_lines(plan.conda);
  lines.insert(lines.end(), plan.setup.begin(), plan.setup.end());
  return lines;
}

void add_modules(Text& out, const JobPlan& plan) {
  if (!plan.before.empty()) {
    out.paragraph("Software.");
    out.lines(plan.before);
  }
  if (!plan.has_container() && !plan.conda.empty()) {
    out.paragraph("The conda environment: tasks get it from here, instead of activating it one by one.");
    out.lines(conda_lines(plan.conda));
  }
}

void add_environment(Text& out, const JobPlan& plan) {
  if (!plan.env.empty()) {
    out.paragraph("Network and devices, by the profile of " + plan.cluster + ".");
    for (const auto& [name, value] : plan.env) out.line("export " + name + "=" + shell_expanding(value));
  }
  if (!plan.own_env.empty()) {
    out.paragraph("Your own.");
    for (const auto& each : plan.own_env) {
      const auto equals = each.find('=');
      out.line("export " + each.substr(0, equals + 1) + shell_expanding(each.substr(equals + 1)));
    }
  }
  out.paragraph("Where this run's logs and snapshots lie, for lockstep and for the program.");
  out.line("export LOCKSTEP_RUN_DIR=" + shell_quoted(plan.places.run_dir.string()));
  if (!plan.places.profile_path.empty()) {
    out.line("export LOCKSTEP_PROFILE_PATH=" + shell_quoted(plan.places.profile_path));
  }
}

void add_container(Text& out, const JobPlan& plan) {
  if (!plan.has_container()) return;
  out.paragraph("Into the container goes nothing of the Python, and none of the libraries, outside.");
  out.line("for name in $(compgen -e); do");
  out.line(
      "  case $name in CONDA_* | _CE_* | PYTHON* | VIRTUAL_ENV* | LD_LIBRARY_PATH | LD_PRELOAD) unset \"$name\" ;; "
      "esac");
  out.line("done");
  out.line("container=(");
  for (const auto& words : container_command(plan)) out.line("  " + words);
  out.line(")");
}

void add_setup(Text& out, const JobPlan& plan) {
  const auto lines = task_lines(plan);
  if (lines.empty()) return;
  out.paragraph(plan.has_container() ? "What each task runs in the container before its program."
                                     : "What each task runs before its program.");
  // The end of the lines is a word that is none of them.
  std::string end = "SETUP";
  while (std::ranges::find(lines, end) != lines.end()) end += "_";
  out.line("setup=$(cat << '" + end + "'");
  out.line("set -e");
  out.lines(lines);
  out.line("exec \"$@\"");
  out.line(end);
  out.line(")");
}

/// What stands between `srun` and the program.
std::string wrapped(const JobPlan& plan, bool with_exec) {
  std::string text;
  if (plan.has_container()) text += "\"${container[@]}\" ";
  if (with_exec) {
    text +=
        shell_quoted(plan.places.lockstep.string()) + " exec --cluster " + shell_quoted(plan.places.profile) + " -- ";
  }
  if (!task_lines(plan).empty()) text += "bash -c \"$setup\" task ";
  return text;
}

std::string step_flags(const JobPlan& plan) { return plan.exports_nothing ? " --export=ALL" : ""; }

/// A command that only succeeds where the program is there and, as far as that can be tried, starts.
std::string trial_of(const JobPlan& plan) {
  if (plan.program.is_recipe) return "\"$program\" --version > /dev/null";
  const auto name = std::filesystem::path(plan.program.command.front()).filename().string();
  if (name.starts_with("python")) return "\"$program\" -c ''";
  return "sh -c 'command -v \"$0\"' \"$program\" > /dev/null";
}

void add_trial(Text& out, const JobPlan& plan) {
  const auto world = plan.size.world();
  out.paragraph("One task on one node first: a program that is not there, or does not start, fails once" +
                (world > 1 ? ", not " + std::to_string(world) + " times." : std::string(".")));
  out.line("program=" + shell_quoted(plan.program.command.front()));
  out.line("srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none" + step_flags(plan) +
           " \\");
  out.line("  " + wrapped(plan, false) + trial_of(plan) + " || {");
  const std::string where = plan.has_container() ? "in the container on the compute node" : "on the compute node";
  out.line("  echo \"lockstep: error: '$program' was not found, or does not start, " + where + "\" >&2");
  out.line(
      "  echo \"  hint: name it by its full path there, or load what it needs in [cluster] setup or modules\" >&2");
  out.line("  exit 4");
  out.line("}");
}

std::string step(const JobPlan& plan) {
  std::string text = "srun";
  // Since Slurm 22.05 srun does not take it over from sbatch.
  if (plan.size.cores_per_task > 0) text += " --cpus-per-task=" + std::to_string(plan.size.cores_per_task);
  text += step_flags(plan);
  constexpr std::size_t kLong = 60;  // Such a flag gets a line of its own.
  for (const auto& flag : plan.srun) text += (flag.size() > kLong ? " \\\n  " : " ") + shell_quoted(flag);
  text += " \\\n  " + wrapped(plan, true) + "\\\n  \"$program\"";
  for (std::size_t i = 1; i < plan.program.command.size(); ++i) {
    const auto& word = plan.program.command[i];
    text += word == plan.places.run_dir ? " \"$LOCKSTEP_RUN_DIR\"" : " " + shell_quoted(word);
  }
  return text;
}

/// The line that puts the job, or a next one, into the queue.
std::string next_job(const JobPlan& plan) {
  if (plan.can_requeue) return "scontrol requeue \"$SLURM_JOB_ID\"";
  return "sbatch --parsable --dependency=afterany:\"$SLURM_JOB_ID\" " + shell_quoted(script_path(plan).string()) +
         " $((link + 1)) > \"$LOCKSTEP_RUN_DIR/job.next\"";
}

std::string link_line(const JobPlan& plan) {
  return plan.can_requeue ? "link=$((${SLURM_RESTART_COUNT:-0} + 1))" : "link=${1:-1}";
}

/// Before all else: a signal that comes while nobody waits for it ends the shell.
void add_trap(Text& out, const JobPlan& plan) {
  if (!is_chained_program(plan)) return;
  const auto limit = std::to_string(plan.queue.chain);
  out.paragraph("Before the time is up Slurm warns this shell, and the run goes on in the next job, " + limit +
                " in all at most.");
  out.line(link_line(plan));
  out.line("warned=");
  out.line("next_job() { [ \"$link\" -ge " + limit + " ] || [ -e " + kStopMark + " ] || " + next_job(plan) + "; }");
  out.line("trap 'warned=1; next_job' USR1");
}

void add_step_of_chain(Text& out, const JobPlan& plan) {
  out.paragraph("The tasks, each with its rank, device, cores and caches from `lockstep exec`.");
  out.line(step(plan) + " &");
  out.line("status=0");
  out.line("wait $! || status=$?");
  out.line("if [ -n \"$warned\" ]; then status=0; wait $! || status=$?; fi  # the warning ended the first wait");
  out.line("[ \"$status\" != 75 ] || next_job");
  out.line("exit \"$status\"");
}

void add_step(Text& out, const JobPlan& plan) {
  out.paragraph("The tasks, each with its rank, device, cores and caches from `lockstep exec`.");
  out.line("status=0");
  out.line(step(plan) + " || status=$?");
  out.paragraph(plan.program.is_recipe
                    ? "75: the time was up and a snapshot is written. The run goes on from it in the next job."
                    : "75: the program asks to be started again.");
  if (plan.queue.chain > 0 || !plan.can_requeue) out.line(link_line(plan));
  const std::string bound =
      plan.queue.chain > 0 ? " && [ \"$link\" -lt " + std::to_string(plan.queue.chain) + " ]" : std::string();
  out.line("if [ \"$status\" = 75 ] && [ ! -e " + kStopMark + " ]" + bound + "; then " + next_job(plan) + "; fi");
  out.line("exit \"$status\"");
}

}  // namespace

std::filesystem::path script_path(const JobPlan& plan) { return plan.places.run_dir / "job.sh"; }

std::filesystem::path log_path(const JobPlan& plan) { return plan.places.run_dir / "logs" / "job.log"; }

std::string batch_script(const JobPlan& plan) {
  Text out;
  out.line("#!/bin/bash");
  out.line("# " + summary(plan));
  out.line("# Written by `lockstep submit`; `sbatch " + shell_quoted(script_path(plan).string()) + "` runs it again.");
  add_directives(out, plan);
  out.line("");
  out.line("set -eo pipefail");
  out.line(
      "echo \"== job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST, $(date -Is)\"");
  add_trap(out, plan);
  add_modules(out, plan);
  add_environment(out, plan);
  add_container(out, plan);
  add_setup(out, plan);
  add_trial(out, plan);
  if (is_chained_program(plan)) {
    add_step_of_chain(out, plan);
  } else {
    add_step(out, plan);
  }
  return std::move(out).take();
}

}  // namespace lockstep
