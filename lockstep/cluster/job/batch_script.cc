// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/batch_script.h"

#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/data_stage.h"
#include "lockstep/cluster/job/script_parts.h"

namespace lockstep {
namespace {

/// The mark of a program that asks to be started again.
const std::string kAgainMark = "\"$LOCKSTEP_RUN_DIR/again-$SLURM_JOB_ID\"";

/// The largest number of ranks that get separate logs.
constexpr int kMostRankLogs = 256;

std::string summary(const JobPlan& plan) {
  const auto& size = plan.size;
  std::string text = plan.program.name + ": " + counted(size.nodes, "node") + " of " + plan.cluster + ", " +
                     counted(size.world(), "task");
  const bool is_one = size.world() == 1;
  std::vector<std::string> parts;
  if (size.devices > 0) parts.push_back(counted(size.devices / size.tasks, "device"));
  if (size.cores_per_task > 0) parts.push_back(counted(size.cores_per_task, "core"));
  if (!parts.empty()) text += (is_one ? " with " : ", each with ") + joined(parts, " and ");
  return text + ".";
}

std::string step(const JobPlan& plan) {
  std::string text = "srun";
  // Since Slurm 22.05 srun does not take it over from sbatch.
  if (plan.size.cores_per_task > 0) text += " --cpus-per-task=" + std::to_string(plan.size.cores_per_task);
  text += step_flags(plan);
  constexpr std::size_t kLong = 60;  // Such a flag gets a line of its own.
  for (const auto& flag : plan.srun) text += (flag.size() > kLong ? " \\\n  " : " ") + shell_quoted(flag);
  const bool is_program = !plan.program.is_recipe;
  const bool has_logs = is_program && plan.size.world() <= kMostRankLogs;
  // A file per rank would burden the file system, so a label names each line's rank instead.
  if (is_program && !has_logs) text += " --label";
  const std::string options = is_program ? (has_logs ? " --rank-logs" : "") + (" --again " + kAgainMark) : " --stay";
  return text + " \\\n  " + wrapped(plan, options) + "\\\n  \"$program\"" + arguments_of(plan);
}

/// Set first of all. A signal that arrives without a trap ends the shell.
void add_trap(ScriptText& out, const JobPlan& plan) {
  if (!is_warned_program(plan)) return;
  if (const auto& signal = plan.queue.signal) {
    out.paragraph(std::to_string(signal->before.count()) +
                  " s before the time is up Slurm warns this shell, and the ranks get SIG" + signal->name +
                  ". Once they have ended, the run goes on in the next job.");
    out.line("warned=");
    out.line("trap 'warned=1; scancel --signal=" + signal->name + " \"$SLURM_JOB_ID\" || true' USR1");
    return;
  }
  const auto limit = std::to_string(plan.queue.chain);
  out.paragraph("Before the time is up Slurm warns this shell, and the run goes on in the next job, " + limit +
                " in all at most.");
  out.line("warned=");
  out.line("trap 'warned=1; next_job' USR1");
}

/// Prints how to upload what trackers had to keep offline.
void add_trackers(ScriptText& out, const JobPlan& plan) {
  if (!plan.is_offline || plan.program.is_recipe) return;
  out.paragraph("The nodes have no internet: what trackers have kept in the run folder is sent from a login node.");
  out.line("for kept in \"$LOCKSTEP_RUN_DIR\"/wandb/offline-run-*; do");
  out.line("  if [ -e \"$kept\" ]; then echo \"== on a login node: wandb sync '$kept'\"; fi");
  out.line("done");
  out.line("if [ -d \"$LOCKSTEP_RUN_DIR/mlruns\" ]; then");
  out.line("  echo \"== on a login node: mlflow ui --backend-store-uri 'file:$LOCKSTEP_RUN_DIR/mlruns'\"");
  out.line("fi");
}

void add_step(ScriptText& out, const JobPlan& plan) {
  out.paragraph("The tasks, each with its rank, device, cores and caches from `lockstep exec`.");
  out.line("status=0");
  if (is_warned_program(plan)) {
    if (plan.queue.signal) out.line("if [ -n \"$warned\" ]; then next_job; exit 75; fi  # too late to begin");
    out.line(step(plan) + " &");
    out.line("step=$!");
    out.line("wait \"$step\" || status=$?");
    out.line(
        "if [ -n \"$warned\" ]; then status=0; wait \"$step\" || status=$?; fi  # the warning ended the first wait");
  } else {
    out.line(step(plan) + " || status=$?");
  }
  if (plan.program.is_recipe) {
    out.paragraph("75: the time was up and a snapshot is written. The next job goes on from it.");
  } else {
    out.paragraph("A program that ends with 75 asks to be started again: `lockstep exec` has left a mark for it.");
    out.line("if [ -e " + kAgainMark + " ]; then rm -f " + kAgainMark + "; status=75; fi");
  }
  add_trackers(out, plan);
  add_end_of_data(out, plan);
  if (plan.queue.goes_on) {
    const std::string warned = plan.queue.signal ? " && [ -z \"$warned\" ]" : "";
    out.line(warned.empty() ? "[ \"$status\" != 75 ] || next_job"
                            : "{ [ \"$status\" != 75 ]" + warned + "; } || next_job");
  }
  out.line("exit \"$status\"");
}

}  // namespace

std::filesystem::path script_path(const JobPlan& plan) { return plan.paths.run_dir / "job.sh"; }

std::filesystem::path log_path(const JobPlan& plan) { return plan.paths.run_dir / "logs" / "job.log"; }

std::string batch_script(const JobPlan& plan) {
  ScriptText out;
  out.line("#!/bin/bash");
  out.line("# " + summary(plan));
  add_head(out, plan);
  add_next_job(out, plan, shell_quoted((plan.paths.run_dir / "snapshots").string()));
  add_trap(out, plan);
  add_surroundings(out, plan, kKeepEnd);
  add_smoke_test(out, plan);
  add_step(out, plan);
  return std::move(out).take();
}

}  // namespace lockstep
