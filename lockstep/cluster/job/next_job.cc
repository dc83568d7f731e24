// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/next_job.h"

#include <string>

#include "lockstep/base/shell_text.h"
#include "lockstep/cluster/job/batch_script.h"

namespace lockstep {
namespace {

/// The file that `lockstep stop` writes for the script, so that the run does not continue.
const std::string kStopMark = "\"$LOCKSTEP_RUN_DIR/stop-$SLURM_JOB_ID\"";

constexpr int kMostInVain = 3;

/// Returns the line that sets `link`, the number of jobs that the run has had, including this one.
std::string link_line(const JobPlan& plan) {
  return plan.can_requeue ? "link=$((${SLURM_RESTART_COUNT:-0} + 1))" : "link=${1:-1}";
}

/// Returns the shell condition to continue in another job: nobody stopped the run, and its chain is not at its end.
std::string may_go_on(const JobPlan& plan) {
  return "[ ! -e " + kStopMark + " ]" +
         (plan.queue.chain > 0 ? " && [ \"$link\" -lt " + std::to_string(plan.queue.chain) + " ]" : std::string());
}

/// Adds the shell function that puts this job, or a next one, into the queue.
///
/// A requeue is tried again. The state is asked first each time, because the program, or an earlier try, may have put
/// the job back. While Slurm delivers the warning, squeue shows SIGNALING for a running job: see job_state(). sbatch is
/// tried once: if its answer was lost, a second one would be a second job. The shell empties a file before sbatch
/// answers, and until then the run's job is the one that job.next names.
void add_requeue(ScriptText& out, const JobPlan& plan) {
  if (plan.can_requeue) out.line("# shellcheck disable=SC2317  # `again` calls it.");
  out.line("requeue() {");
  if (plan.can_requeue) {
    out.line("  case $(squeue --noheader --jobs=\"$SLURM_JOB_ID\" --format=%T 2> /dev/null) in");
    out.line("    RUNNING | SIGNALING | RESIZING | '') scontrol requeue \"$SLURM_JOB_ID\" ;;");
    out.line("  esac");
  } else {
    const std::string next = "\"$LOCKSTEP_RUN_DIR/job.next\"";
    out.line("  sbatch --parsable --dependency=afterany:\"$SLURM_JOB_ID\" " + shell_quoted(script_path(plan).string()) +
             " $((link + 1)) > " + next + ".new &&");
    out.line("    mv " + next + ".new " + next);
  }
  out.line("}");
}

}  // namespace

void add_next_job(ScriptText& out, const JobPlan& plan, const std::string& snapshots) {
  if (!plan.queue.goes_on) return;
  const bool has_snapshots = plan.program.is_recipe;
  out.paragraph("The run goes on in a next job, unless `lockstep stop` has left its mark, or " +
                std::to_string(kMostInVain) + " starts in a row have come to nothing" +
                (has_snapshots ? ": no new snapshot." : ": under a minute.") + " It goes on once.");
  out.line(link_line(plan));
  out.line("in_vain=" + shell_quoted((plan.paths.run_dir / "starts-in-vain").string()));
  out.line("[ \"$link\" != 1 ] || rm -f \"$in_vain\"");
  if (has_snapshots) {
    out.line("snapshots() { find " + snapshots + " -mindepth 1 -maxdepth 1 2> /dev/null | sort || true; }");
    out.line("snapshots_before=$(snapshots)");
  }
  add_requeue(out, plan);
  out.line("next_job() {");
  out.line("  if " + may_go_on(plan) + "; then");
  out.line(std::string("    if ") +
           (has_snapshots ? "[ \"$(snapshots)\" != \"$snapshots_before\" ]" : "[ \"$SECONDS\" -ge 60 ]") +
           "; then rm -f \"$in_vain\"; else echo \"$SLURM_JOB_ID\" >> \"$in_vain\"; fi");
  out.line("    if [ -e \"$in_vain\" ] && [ \"$(wc -l < \"$in_vain\")\" -ge " + std::to_string(kMostInVain) +
           " ]; then");
  out.line("      echo \"lockstep: error: the run does not go on: " + std::to_string(kMostInVain) +
           " starts in a row " +
           (has_snapshots ? "wrote no new snapshot" : "ended within a minute and asked for another") + "\" >&2");
  out.line("      echo \"  hint: what the last one says above tells why; mend it, and submit again\" >&2");
  out.line("    else");
  // If this fails, the job still ends with its program's code.
  out.line(
      std::string("      ") + (plan.can_requeue ? "again requeue" : "requeue") +
      " || echo \"lockstep: error: the run is not in the queue again: submit $LOCKSTEP_RUN_DIR/job.sh once more\" >&2");
  out.line("    fi");
  out.line("  fi");
  out.line("}");
}

void add_end_with_next_job(ScriptText& out, const JobPlan& plan) {
  if (plan.queue.goes_on) {
    const std::string warned = plan.queue.signal ? " && [ -z \"$warned\" ]" : "";
    out.line(warned.empty() ? "[ \"$status\" != 75 ] || next_job"
                            : "{ [ \"$status\" != 75 ]" + warned + "; } || next_job");
  }
  out.line("exit \"$status\"");
}

}  // namespace lockstep
