// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/packed_sweep.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/data_stage.h"
#include "lockstep/cluster/job/next_job.h"
#include "lockstep/cluster/job/script_parts.h"

namespace lockstep {
namespace {

/// How a trial ended, if several trials share one step.
const std::string kCodeFile = "code-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}";

std::string summary(const PackedJob& job) {
  const auto& size = job.trial.size;
  std::string text = job.node.program.name + ": " + counted(std::ssize(job.trials), "trial") + " on 1 node of " +
                     job.node.cluster + ", each with ";
  if (job.per_device > 1) {
    text += "1 device between " + std::to_string(job.per_device) + " and ";
  } else if (size.devices > 0) {
    text += counted(size.devices, "device") + " and ";
  }
  return text + (size.cores_per_task > 0 ? counted(size.cores_per_task, "core") : "a task") + " of its own.";
}

/// Returns the plan of the job for the whole node, with the software and variables of a trial. The node's devices keep
/// their order.
JobPlan surroundings_of(const PackedJob& job) {
  JobPlan plan = job.node;
  plan.env = job.trial.env;
  plan.program = job.trial.program;
  plan.container.binds.push_back(job.sweep.string());
  return plan;
}

/// Returns srun's flags for one trial: one device with its share of cores and memory, so that the other trials get
/// theirs. `tasks` is a word for the shell.
std::string step_of_trial(const PackedJob& job, const std::string& tasks) {
  const auto& trial = job.trial;
  std::string text = "srun --exact --nodes=1 --ntasks=" + tasks + " --ntasks-per-node=" + tasks + " --job-name=\"$1\"" +
                     step_flags(trial);
  if (trial.size.cores_per_task > 0) text += " --cpus-per-task=" + std::to_string(trial.size.cores_per_task);
  // Without --mem a step takes all of the job's memory, and the next step waits. --mem=0 would not change that.
  text += " --mem=" + (trial.size.memory.empty() ? "0" : trial.size.memory);
  if (!trial.devices_flag.empty()) text += " " + shell_quoted(trial.devices_flag);
  for (const auto& flag : trial.srun) text += " " + shell_quoted(flag);
  return text;
}

/// Returns shell lines that skip the trial whose run folder is set if it has no work to do in this job.
std::vector<std::string> leave_out_lines(const PackedJob& job, const std::string& leave) {
  std::vector<std::string> lines = {"[ ! -e \"$LOCKSTEP_RUN_DIR/stop-$SLURM_JOB_ID\" ] || " + leave};
  // A recipe sees from its snapshot that it has finished. Another program would repeat all of its work, so it is
  // skipped.
  if (!job.node.program.is_recipe && job.node.queue.goes_on) {
    lines.push_back("[ \"$link\" = 1 ] || [ ! -e \"$LOCKSTEP_RUN_DIR/done\" ] || " + leave);
  }
  lines.emplace_back("mkdir -p \"$LOCKSTEP_RUN_DIR/logs\"");
  return lines;
}

/// Returns the words that start a trial. They follow srun's own flags, or are picked in a task if several trials share
/// a step.
std::string program_line(const PackedJob& job, const std::string& own) {
  return "\"$program\"" + arguments_of(job.trial) + " " + own + " >> \"$LOCKSTEP_RUN_DIR/logs/job.log\" 2>&1";
}

void add_steps(ScriptText& out, const PackedJob& job) {
  out.line("start() {");
  out.line("  local -x LOCKSTEP_RUN_DIR=$sweep/$1");
  for (const auto& line : leave_out_lines(job, "return 0")) out.line("  " + line);
  out.line("  " + step_of_trial(job, "1") + " \\");
  out.line("    " + wrapped(surroundings_of(job), " --stay") + "\\");
  out.line("    " + program_line(job, "\"${@:2}\"") + " &");
  out.line("  names+=(\"$1\") steps+=(\"$!\")");
  out.line("}");
  for (const auto& trial : job.trials) {
    out.line("start " + shell_quoted(trial.name) + " " + shell_quoted(trial.arguments));
  }
}

/// Returns the shell lines that pick one task's words from those of all tasks of its step. Each task has a name, a
/// count, and that many words.
std::vector<std::string> task_of_shared_step(const PackedJob& job) {
  std::vector<std::string> lines = {"eval \"$job\"", "trap : TERM INT HUP USR1 USR2  # The program answers them.",
                                    "for ((turn = 0; turn < SLURM_PROCID; turn++)); do shift $(($2 + 2)); done",
                                    "export LOCKSTEP_RUN_DIR=$sweep/$1", "set -- \"${@:3:$2}\""};
  const auto leave_out = leave_out_lines(job, "exit 0");
  lines.insert(lines.end(), leave_out.begin(), leave_out.end());
  const std::vector<std::string> rest = {
      "export SLURM_STEP_ID=$((SLURM_STEP_ID + 100000 * (SLURM_PROCID + 1)))",
      "export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_NPROCS=1 SLURM_STEP_NUM_TASKS=1",
      "export SLURM_NTASKS_PER_NODE=1 SLURM_TASKS_PER_NODE=1 SLURM_STEP_TASKS_PER_NODE=1",
      "unset SLURM_STEP_RESV_PORTS",
      "code=0",
      wrapped(surroundings_of(job), " --stay") + "\\",
      "  " + program_line(job, "\"$@\"") + " || code=$?",
      "echo \"$code\" > \"$LOCKSTEP_RUN_DIR/" + kCodeFile + "\""};
  lines.insert(lines.end(), rest.begin(), rest.end());
  return lines;
}

/// Adds the trials device by device. The words of each step follow the count of its words.
void add_shared_steps(ScriptText& out, const PackedJob& job) {
  out.line(
      "# Those that share a device are tasks of one step. To its program each is alone, in a step of its own number.");
  out.quoted_lines("share", task_of_shared_step(job));
  out.line("job=$(declare -p program sweep link container setup 2> /dev/null) || true");
  out.line("export job");
  out.line("start() {");
  out.line("  local tasks=$1");
  out.line("  shift");
  out.line("  " + step_of_trial(job, "\"$tasks\"") + " --kill-on-bad-exit=0 --mpi=none \\");
  out.line("    bash -c \"$share\" trial \"$@\" &");
  out.line("  while [ $# -gt 0 ]; do");
  out.line("    names+=(\"$1\") steps+=(\"$!\")");
  out.line("    shift $(($2 + 2))");
  out.line("  done");
  out.line("}");
  const auto each = static_cast<std::size_t>(job.per_device);
  for (std::size_t first = 0; first < job.trials.size(); first += each) {
    const auto last = std::min(job.trials.size(), first + each);
    std::string line = "start " + std::to_string(last - first);
    for (auto i = first; i < last; ++i) {
      const auto& trial = job.trials[i];
      line += " \\\n  " + shell_quoted(trial.name) + " " + std::to_string(trial.arguments.size());
      if (!trial.arguments.empty()) line += " " + shell_quoted(trial.arguments);
    }
    out.line(line);
  }
}

void add_trials(ScriptText& out, const PackedJob& job) {
  out.paragraph("A trial is a step of its own: one that fails leaves the others alone. `lockstep stop` leaves a mark.");
  out.line("sweep=" + shell_quoted(job.sweep.string()));
  out.line("names=() steps=()");
  job.per_device > 1 ? add_shared_steps(out, job) : add_steps(out, job);
}

void add_end(ScriptText& out, const PackedJob& job) {
  out.paragraph("75: the time was up for that trial and a snapshot is written. It goes on from it in the next job.");
  out.line("status=0 again=");
  out.line("for i in \"${!steps[@]}\"; do");
  out.line("  code=0");
  out.line("  wait \"${steps[i]}\" || code=$?");
  if (job.per_device > 1) {
    // A trial that had nothing to do in this job has no exit code.
    out.line("  { read -r code < \"$sweep/${names[i]}/" + kCodeFile +
             "\"; } 2> /dev/null || [ \"$code\" != 0 ] || continue");
  }
  out.line("  case $code in");
  out.line(job.node.program.is_recipe ? "    0) ;;" : "    0) touch \"$sweep/${names[i]}/done\" ;;");
  out.line("    75) [ -e \"$sweep/${names[i]}/stop-$SLURM_JOB_ID\" ] || again=1 ;;");
  out.line("    *)");
  out.line("      echo \"lockstep: error: trial ${names[i]} ended with $code\" >&2");
  out.line("      echo \"  hint: $sweep/${names[i]}/logs/job.log says why; the other trials are not concerned\" >&2");
  out.line("      status=$code");
  out.line("      ;;");
  out.line("  esac");
  out.line("done");
  add_end_of_data(out, job.node);
  if (job.node.queue.goes_on) {
    out.line("[ -z \"$again\" ] || next_job");
  } else {
    out.line("if [ -n \"$again\" ] && [ \"$status\" = 0 ]; then status=75; fi");
  }
  out.line("exit \"$status\"");
}

}  // namespace

int trials_on_a_node(const RequestedShape& shape, const Profile& profile) {
  const int devices = shape.devices.value_or(static_cast<int>(profile.devices.count));
  if (devices > 0) return devices;
  if (shape.tasks) return *shape.tasks;
  throw Error(ErrorKind::kUsage,
              "--pack: " + profile.name + " knows no devices of a node, so nothing says how many trials fit",
              "--devices N for one trial on each device, or --devices 0 --tasks-per-node N --cores-per-task C without");
}

std::string packed_script(const PackedJob& job) {
  ScriptText out;
  const JobPlan plan = surroundings_of(job);
  out.line("#!/bin/bash");
  out.line("# " + summary(job));
  add_head(out, job.node);
  add_next_job(out, job.node, shell_quoted(job.sweep.string()) + "/*/snapshots");
  add_surroundings(out, plan, kKeepEnd);
  add_smoke_test(out, plan);
  add_trials(out, job);
  add_end(out, job);
  return std::move(out).take();
}

}  // namespace lockstep
