// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/run_end.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/program.h"
#include "lockstep/launch/slurm_tool.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kTerminated = 128 + SIGTERM;
constexpr int kKilled = 128 + SIGKILL;

/// A final state of a job in Slurm. Source: https://slurm.schedmd.com/squeue.html, "JOB STATE CODES".
struct FinalState {
  std::string_view slurm;
  const char* ours;
  int code;  ///< Used for a job without a code. 0 for a state that always has one.
};
const auto kFinalStates = std::to_array<FinalState>({
    {"COMPLETED", "ended", 0},
    {"FAILED", "failed", 1},
    {"CANCELLED", "cancelled", kTerminated},
    {"TIMEOUT", "timeout", kTerminated},
    {"DEADLINE", "timeout", kTerminated},
    {"OUT_OF_MEMORY", "out of memory", kKilled},
    {"NODE_FAIL", "node lost", exit_code(ErrorKind::kPeer)},
    {"BOOT_FAIL", "node lost", exit_code(ErrorKind::kPeer)},
    {"PREEMPTED", "preempted", kTerminated},
});

const FinalState* final_state(std::string_view slurm) {
  const auto found = std::ranges::find(kFinalStates, slurm, &FinalState::slurm);
  return found == kFinalStates.end() ? nullptr : &*found;
}

RunEnd end_by_code(int code) {
  if (code == kExitStopped) return {.state = "stopped", .code = code};
  return {.state = code == 0 ? "ended" : "failed", .code = code};
}

/// Returns the exit code that the job's script recorded for its last start.
std::optional<int> script_code(const ExitRecords& records, const std::string& job) {
  std::optional<int> code;
  for (const auto& each : records.jobs) {
    if (each.job == job && each.state.empty()) code = each.code;
  }
  return code;
}

RunEnd end_by_slurm(const JobExit& exit, std::optional<int> script) {
  const auto* known = final_state(exit.state);
  const auto code = script.value_or(0) != 0 ? *script : exit.code;
  if (known == nullptr || known->ours == std::string_view("failed")) return end_by_code(code != 0 ? code : 1);
  // If a node was lost, the script and the ranks on the other nodes may still have recorded how they were killed.
  if (known->code == exit_code(ErrorKind::kPeer)) return {.state = known->ours, .code = known->code};
  return {.state = known->ours, .code = code != 0 ? code : known->code};
}

/// Returns the folder with the record of how the run's job ended.
fs::path job_folder(const RunJob& run) {
  return run.record.packed_in.empty() ? run.path : fs::path(run.record.packed_in);
}

/// True if each task of the job's last start has left a record of a good end.
bool all_ended_well(const ExitRecords& records, const RunJob& run) {
  std::map<int, int> ended_well;
  for (const auto& each : records.ranks) {
    if (each.job == run.record.job) ended_well[each.start] += each.code == 0 ? 1 : 0;
  }
  return !ended_well.empty() && ended_well.rbegin()->second == run.record.tasks;
}

/// A script that ended with 0 proves nothing, since srun also returns 0 if its node is lost.
bool wants_slurm(const RunJob& run, const QueuedJobs& queue) {
  if (queue.contains(run.record.job) || run.learned) return false;
  const auto records = read_exits(job_folder(run));
  const auto* end = records.end_of_job(run.record.job);
  return end == nullptr || (end->state.empty() && (end->code != 0 || !all_ended_well(records, run)));
}

/// Asks Slurm's controller, which remembers jobs for some minutes, and then its accounting.
std::map<std::string, EndedJob> asked_ends(const std::vector<std::string>& jobs, const Environment& env) {
  const auto queue =
      run_slurm_tool({"squeue", "--me", "--states=all", "--noheader", "-O", "JobID:32,State:32,exit_code:32"}, env);
  auto ends = queue.exit_code == 0 ? parsed_ended_squeue(queue.output) : std::map<std::string, EndedJob>();
  std::vector<std::string> missing;
  std::ranges::copy_if(jobs, std::back_inserter(missing), [&ends](const auto& job) { return !ends.contains(job); });
  if (missing.empty()) return ends;
  const auto kept = run_slurm_tool({"sacct", "-X", "--noheader", "--parsable2", "--format=JobIDRaw,State,ExitCode",
                                    "--jobs=" + joined(missing, ",")},
                                   env);
  if (kept.exit_code == 0) ends.merge(parsed_ended_sacct(kept.output));
  return ends;
}

}  // namespace

std::optional<RunEnd> run_end(const RunJob& run) {
  const auto& job = run.record.job;
  if (!run.record.packed_in.empty()) {
    const auto own = read_exits(run.path);
    for (auto each = own.ranks.rbegin(); each != own.ranks.rend(); ++each) {
      if (each->job == job) return end_by_code(each->code);
    }
  }
  const auto records = read_exits(job_folder(run));
  const auto* end = records.end_of_job(job);
  if (run.learned && (end == nullptr || end->state.empty())) end = &*run.learned;
  const auto first = first_exit(records, job);
  if (end == nullptr) return first ? std::optional(end_by_code(first->rank.code)) : std::nullopt;
  auto found = end->state.empty() ? end_by_code(end->code) : end_by_slurm(*end, script_code(records, job));
  // Slurm and srun report the highest code of all ranks, including ranks that were stopped because the first one
  // failed.
  if (found.state == "failed" && first) found.code = first->rank.code;
  return found;
}

std::optional<RunEnd> final_end(const RunJob& run) {
  const auto& job = run.record.job;
  const auto records = read_exits(job_folder(run));
  const auto* end = records.end_of_job(job);
  if (end == nullptr && !run.learned) return std::nullopt;
  if (end != nullptr && end->state.empty() && !run.learned) {
    std::error_code ignored;
    const bool is_stopped = fs::exists(run.path / ("stop-" + job), ignored);
    if ((end->code == kExitStopped && !is_stopped) || end->code > 128) return std::nullopt;
  }
  return run_end(run);
}

std::optional<FirstExit> rank_at_fault(const RunJob& run, const RunEnd& end) {
  constexpr std::array kEndedBySlurm = {"cancelled", "timeout", "preempted", "node lost"};
  const auto first = first_exit(read_exits(run.path), run.record.job);
  const bool is_slurms = std::ranges::find(kEndedBySlurm, end.state) != kEndedBySlurm.end();
  if (first && is_slurms && (first->rank.code == kTerminated || first->rank.code == kKilled)) return std::nullopt;
  return first;
}

std::int64_t last_news(const RunJob& run) {
  struct stat status {};
  const bool is_there = ::stat((run.path / "exits.jsonl").c_str(), &status) == 0;
  return std::max(run.record.submitted, is_there ? std::int64_t{status.st_mtime} : 0);
}

void learn_ends(std::span<RunJob> runs, const QueuedJobs& queue, const Environment& env) {
  std::vector<std::string> jobs;
  std::vector<RunJob*> asked;
  for (auto& run : runs) {
    if (!wants_slurm(run, queue)) continue;
    asked.push_back(&run);
    if (std::ranges::find(jobs, run.record.job) == jobs.end()) jobs.push_back(run.record.job);
  }
  if (jobs.empty()) return;
  const auto ends = asked_ends(jobs, env);
  for (auto* run : asked) {
    const auto found = ends.find(run->record.job);
    // Several trials may belong to one job. Slurm is asked for this job once.
    if (found == ends.end() || !wants_slurm(*run, queue)) continue;
    const JobExit exit{.job = found->first, .code = found->second.code, .state = found->second.state};
    try {
      append_exit(job_folder(*run), exit);
    } catch (const Error&) {
      // Another user's run cannot be written, nor can a full disk. Slurm is then asked again the next time.
      run->learned = exit;
    }
  }
}

std::map<std::string, EndedJob> parsed_ended_squeue(std::string_view text) {
  std::map<std::string, EndedJob> ends;
  for (const auto& line : split(text, '\n')) {
    auto words = split(line, ' ');
    std::erase(words, "");
    if (words.size() != 3 || final_state(words[1]) == nullptr) continue;
    // The status in Slurm's output has the form of waitpid()'s.
    ends[words[0]] = {.state = words[1], .code = shell_status(parsed_int<int>(words[2]).value_or(0))};
  }
  return ends;
}

std::map<std::string, EndedJob> parsed_ended_sacct(std::string_view text) {
  std::map<std::string, EndedJob> ends;
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(trimmed(line), '|');
    if (fields.size() != 3) continue;
    const auto state = split(fields[1], ' ').front();  // "CANCELLED by 1000"
    const auto codes = split(fields[2], ':');          // "5:0": the code, and the signal
    if (final_state(state) == nullptr || codes.size() != 2) continue;
    const int signal = parsed_int<int>(codes[1]).value_or(0);
    ends[fields[0]] = {.state = state, .code = signal != 0 ? 128 + signal : parsed_int<int>(codes[0]).value_or(0)};
  }
  return ends;
}

}  // namespace lockstep
