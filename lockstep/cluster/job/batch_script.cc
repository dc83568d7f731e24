// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/batch_script.h"

#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/data_stage.h"
#include "lockstep/cluster/job/next_job.h"
#include "lockstep/cluster/job/script_parts.h"

namespace lockstep {
namespace {

/// A file in the run folder by which a program asks to be started again.
const std::string kAgainMark = "\"$LOCKSTEP_RUN_DIR/again-$SLURM_JOB_ID\"";

/// The largest number of ranks that get separate logs.
constexpr int kMostRankLogs = 256;

std::string summary(const JobPlan& plan) {
  const auto& size = plan.size;
  const std::string few = size.is_range() ? std::to_string(size.least_nodes) + " to " : "";
  const std::string few_tasks = size.is_range() ? std::to_string(size.least_nodes * size.tasks) + " to " : "";
  std::string text = plan.program.name + ": " + few + counted(size.nodes, "node") + " of " + plan.cluster + ", " +
                     few_tasks + counted(size.world(), "task");
  const bool is_one = size.world() == 1;
  std::vector<std::string> parts;
  if (size.devices > 0) parts.push_back(counted(size.devices / size.tasks, "device"));
  if (size.cores_per_task > 0) parts.push_back(counted(size.cores_per_task, "core"));
  if (!parts.empty()) text += (is_one ? " with " : ", each with ") + joined(parts, " and ");
  return text + ".";
}

/// srun's flags to use all nodes of a job for which Slurm chose the number of nodes.
std::string whole_range(const JobPlan& plan) {
  return "--nodes=\"$SLURM_JOB_NUM_NODES\" --ntasks=$((SLURM_JOB_NUM_NODES * " + std::to_string(plan.size.tasks) + "))";
}

/// True if the job has only one task. Such a task cannot be healed, since no other rank has its state.
bool is_one_task(const JobPlan& plan) { return plan.size.world() == 1 && !plan.size.is_range(); }

std::string step(const JobPlan& plan) {
  std::string text = plan.queue.restarts > 0 ? "srun \"${where[@]}\"" : "srun";
  // Else srun kills all ranks with a lost node's, and the parent of rank 0 cannot write the state that it holds.
  if (plan.queue.restarts > 0 && plan.program.is_recipe) text += " --no-kill";
  if (plan.size.is_range()) {
    if (plan.queue.restarts == 0) text += " " + whole_range(plan);
    text += " --ntasks-per-node=" + std::to_string(plan.size.tasks);
    if (plan.size.cores_per_task == 0) text += " --cpus-per-task=1";
  }
  // Since Slurm 22.05 srun does not inherit --cpus-per-task from sbatch, so the script passes it.
  if (plan.size.cores_per_task > 0) text += " --cpus-per-task=" + std::to_string(plan.size.cores_per_task);
  text += step_flags(plan);
  constexpr std::size_t kLong = 60;  // Such a flag gets a line of its own.
  for (const auto& flag : plan.srun) text += (flag.size() > kLong ? " \\\n  " : " ") + shell_quoted(flag);
  const bool is_program = !plan.program.is_recipe;
  const bool has_logs = is_program && plan.size.world() <= kMostRankLogs;
  // With so many ranks, a log for each would burden the file system. So they share one log, and a label names the rank
  // of each line.
  if (is_program && !has_logs) text += " --label";
  const std::string heal = plan.program.heal.empty() || is_one_task(plan) ? "" : " --heal " + plan.program.heal;
  const std::string options =
      is_program ? (has_logs ? " --rank-logs" : "") + (" --again " + kAgainMark) : " --stay" + heal;
  return text + " \\\n  " + wrapped(plan, options) + "\\\n  \"$program\"" + arguments_of(plan);
}

/// The trap comes first in the script, since a signal that arrives before it ends the shell.
void add_trap(ScriptText& out, const JobPlan& plan) {
  if (!is_warned_program(plan)) return;
  if (const auto& signal = plan.queue.signal) {
    out.paragraph(std::to_string(signal->before.count()) +
                  " s before the time is up Slurm warns this shell, and the ranks get SIG" + signal->name +
                  ". Once they have ended, the run goes on in the next job.");
    out.line("warned=");
    out.line("trap 'warned=1; again scancel --signal=" + signal->name + " \"$SLURM_JOB_ID\" || true' USR1");
    return;
  }
  const auto limit = std::to_string(plan.queue.chain);
  out.paragraph("Before the time is up Slurm warns this shell, and the run goes on in the next job, " + limit +
                " in all at most.");
  out.line("warned=");
  out.line("trap 'warned=1; next_job' USR1");
}

/// Adds lines that print how to upload the files that trackers such as wandb stored offline.
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

/// Runs the step once. `indent` stands before each line.
///
/// A warned step runs in the background, so that the shell heeds the warning at once. If the step ends while the
/// warning interrupts the shell's wait, bash loses its exit status (5.2 then reports -1), so the background process
/// writes it to a file.
void add_step_line(ScriptText& out, const JobPlan& plan, const std::string& indent) {
  if (!is_warned_program(plan)) return out.line(indent + step(plan) + " || status=$?");
  const std::string kept = "\"$LOCKSTEP_RUN_DIR/status-$SLURM_JOB_ID\"";
  out.line(indent + "{ " + step(plan) + " || status=$?; echo \"$status\" > " + kept + "; } &");
  out.line(indent + "step=$!");
  out.line(indent + "while kill -0 \"$step\" 2> /dev/null; do wait \"$step\" || true; done  # the warning ends a wait");
  out.line(indent + "read -r status < " + kept + " || status=1");
  out.line(indent + "rm -f " + kept);
}

/// Returns the flags of `lockstep after-step` for a recipe and for spare nodes.
std::string recipe_flags(const JobPlan& plan) {
  std::string flags;
  if (plan.program.is_recipe) flags += " --recipe";
  if (plan.program.is_recipe || plan.queue.spares > 0) flags += " --wanted " + std::to_string(plan.size.nodes);
  if (!plan.program.is_any_size) flags += " --must-have-all";
  if (plan.queue.spares > 0) flags += " --all \"$SLURM_JOB_NODELIST\"";
  return flags;
}

/// Runs the step again and again, until it ends well or should not be started again. Slurm may refuse a step if
/// resources of the step before are not free yet. So later steps start with --overlap (see kShortStep).
void add_step_loop(ScriptText& out, const JobPlan& plan) {
  const auto tasks = std::to_string(plan.size.tasks);
  out.line("# A step that fails is started again, " + std::to_string(plan.queue.restarts) +
           " times at most, without the node to blame.");
  if (plan.queue.spares > 0) {
    const auto nodes = std::to_string(plan.size.nodes);
    out.line("restart=0 nodes=$(" + shell_quoted(plan.paths.lockstep.string()) +
             " hosts \"$SLURM_JOB_NODELIST\" | head -n " + nodes + " | paste -s -d,)  # the others are spare");
    out.line("where=(--nodes=" + nodes + " --ntasks=" + std::to_string(plan.size.world()) + " --nodelist=\"$nodes\")");
  } else {
    out.line("restart=0 nodes=$SLURM_JOB_NODELIST where=(" +
             (plan.size.is_range() ? whole_range(plan) : std::string()) + ")");
  }
  out.line("while :; do");
  out.line("  export LOCKSTEP_RESTARTS=$restart");
  out.line("  status=0 begun=$SECONDS");
  add_step_line(out, plan, "  ");
  const std::string warned = is_warned_program(plan) ? " || [ -n \"$warned\" ]" : "";
  const std::string is_asked = plan.program.is_recipe ? "[ \"$status\" = 75 ]" : "[ -e " + kAgainMark + " ]";
  out.line("  if " + is_asked + " || [ -e \"$LOCKSTEP_RUN_DIR/stop-$SLURM_JOB_ID\" ]" + warned + "; then break; fi");
  out.line("  nodes=$(" + shell_quoted(plan.paths.lockstep.string()) +
           " after-step --code \"$status\" --seconds $((SECONDS - begun)) \\");
  out.line("    --nodes \"$nodes\" --tasks-per-node " + tasks + " --most " + std::to_string(plan.queue.restarts) +
           recipe_flags(plan) + ") || break");
  out.line("  [ -n \"$nodes\" ] || break");
  out.line("  IFS=, read -ra names <<< \"$nodes\"");
  out.line("  where=(--overlap --nodes=${#names[@]} --ntasks=$((${#names[@]} * " + tasks + ")) --nodelist=\"$nodes\")");
  out.line("  restart=$((restart + 1))");
  out.line("done");
}

void add_step(ScriptText& out, const JobPlan& plan) {
  out.paragraph("The tasks, each with its rank, device, cores and caches from `lockstep exec`.");
  out.line("status=0");
  if (plan.queue.signal) out.line("if [ -n \"$warned\" ]; then next_job; exit 75; fi  # too late to begin");
  if (!plan.program.is_recipe) out.line("rm -f " + kAgainMark + "  # left by a start that Slurm cut short");
  plan.queue.restarts > 0 ? add_step_loop(out, plan) : add_step_line(out, plan, "");
  if (plan.program.is_recipe) {
    out.paragraph("75: the time was up and a snapshot is written. The next job goes on from it.");
  } else {
    out.paragraph("A program that ends with 75 asks to be started again: `lockstep exec` has left a mark for it.");
    out.line("if [ -e " + kAgainMark + " ]; then rm -f " + kAgainMark + "; status=75; fi");
  }
  add_trackers(out, plan);
  add_end_of_data(out, plan);
  add_end_with_next_job(out, plan);
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
