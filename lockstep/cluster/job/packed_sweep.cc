// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/packed_sweep.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/data_stage.h"
#include "lockstep/cluster/job/script_parts.h"

namespace lockstep {
namespace {

std::string summary(const PackedJob& job) {
  const auto& size = job.trial.size;
  std::string text = job.node.program.name + ": " + counted(std::ssize(job.trials), "trial") + " on 1 node of " +
                     job.node.cluster + ", each with ";
  if (size.devices > 0) text += counted(size.devices, "device") + " and ";
  return text + (size.cores_per_task > 0 ? counted(size.cores_per_task, "core") : "a task") + " of its own.";
}

/// The whole node's job, with the software and variables of a trial. Its devices keep their order.
JobPlan surroundings_of(const PackedJob& job) {
  JobPlan plan = job.node;
  plan.env = job.trial.env;
  plan.program = job.trial.program;
  plan.container.binds.push_back(job.sweep.string());
  return plan;
}

/// One device, the cores and the memory that go with it, and no more, so that the other trials find theirs.
std::string step_of_trial(const PackedJob& job) {
  const auto& trial = job.trial;
  std::string text = "srun --exact --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=\"$1\"" + step_flags(trial);
  if (trial.size.cores_per_task > 0) text += " --cpus-per-task=" + std::to_string(trial.size.cores_per_task);
  // Without its own share, a step takes all of the job's memory, and the next one waits. 0 does not count.
  text += " --mem=" + (trial.size.memory.empty() ? "0" : trial.size.memory);
  if (!trial.devices_flag.empty()) text += " " + shell_quoted(trial.devices_flag);
  for (const auto& flag : trial.srun) text += " " + shell_quoted(flag);
  return text;
}

void add_trials(ScriptText& out, const PackedJob& job) {
  out.paragraph("A trial is a step of its own: one that fails leaves the others alone. `lockstep stop` leaves a mark.");
  out.line("sweep=" + shell_quoted(job.sweep.string()));
  out.line("names=() steps=()");
  out.line("start() {");
  out.line("  local -x LOCKSTEP_RUN_DIR=$sweep/$1");
  out.line("  [ ! -e \"$LOCKSTEP_RUN_DIR/stop-$SLURM_JOB_ID\" ] || return 0");
  // A recipe knows from its snapshot that it is done. A program would repeat all of its work.
  if (!job.node.program.is_recipe && job.node.queue.goes_on) {
    out.line("  [ \"$link\" = 1 ] || [ ! -e \"$LOCKSTEP_RUN_DIR/done\" ] || return 0");
  }
  out.line("  mkdir -p \"$LOCKSTEP_RUN_DIR/logs\"");
  out.line("  " + step_of_trial(job) + " \\");
  out.line("    " + wrapped(surroundings_of(job), " --stay") + "\\");
  out.line("    \"$program\"" + arguments_of(job.trial) + " \"${@:2}\" >> \"$LOCKSTEP_RUN_DIR/logs/job.log\" 2>&1 &");
  out.line("  names+=(\"$1\") steps+=(\"$!\")");
  out.line("}");
  for (const auto& trial : job.trials) {
    out.line("start " + shell_quoted(trial.name) + " " + shell_quoted(trial.arguments));
  }
}

void add_end(ScriptText& out, const PackedJob& job) {
  out.paragraph("75: the time was up for that trial and a snapshot is written. It goes on from it in the next job.");
  out.line("status=0 again=");
  out.line("for i in \"${!steps[@]}\"; do");
  out.line("  code=0");
  out.line("  wait \"${steps[i]}\" || code=$?");
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
