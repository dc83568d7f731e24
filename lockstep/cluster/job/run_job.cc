// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/run_job.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "lockstep/base/absolute_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/job/run_end.h"
#include "lockstep/cluster/record/ask_run.h"
#include "lockstep/launch/slurm_tool.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// How long to wait for a training to see the request. A training looks every second. If it has not seen the request by
// then, it is still starting, or does not see new files in this folder.
constexpr std::chrono::seconds kBeforeASignal{5};

/// Returns an absolute path that ends in the folder's name, also for "." and for a path that ends with a slash.
fs::path plain_path(const std::string& word) {
  const auto path = fs::absolute(word).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::vector<fs::path> folders_in(const fs::path& root) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator it(root, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) folders.push_back(it->path());
  }
  return folders;
}

void add_runs(const fs::path& root, bool with_sweeps, std::vector<RunJob>& runs) {
  for (const auto& folder : folders_in(root)) {
    if (auto record = job_record(folder)) {
      runs.push_back({folder, std::move(*record)});
    } else if (with_sweeps) {
      add_runs(folder, false, runs);
    }
  }
}

/// The file that the job's script looks for before it puts the job back into the queue.
fs::path stop_mark(const RunJob& run) { return run.path / ("stop-" + run.record.job); }

void cancel(const std::vector<std::string>& command, const Environment& env) {
  const auto result = run_slurm_tool(command, env);
  if (result.exit_code == 0) return;
  throw Error(ErrorKind::kEnvironment, "scancel refuses: " + std::string(trimmed(result.errors)),
              "`squeue --me` shows whether the job is yours and still there");
}

/// Returns the step of a packed job in which this trial runs, such as "4711.3". Empty if it is not running.
std::string step_of(const RunJob& trial, const Environment& env) {
  const auto& job = trial.record.job;
  const auto asked = run_slurm_tool({"squeue", "--steps", "--noheader", "--format=%i|%j", "--jobs=" + job}, env);
  if (asked.exit_code != 0) {
    throw Error(ErrorKind::kEnvironment,
                "squeue does not list the steps of job " + job + ": " + std::string(trimmed(asked.errors)),
                "the trial still runs: stop it again in a while");
  }
  for (const auto& line : split(asked.output, '\n')) {
    const auto fields = split(trimmed(line), '|');
    if (fields.size() == 2 && fields[1] == trial.record.step) return fields[0];
  }
  return {};
}

/// Returns the names of the other trials in this trial's step that have not finished.
std::vector<std::string> names_beside(const RunJob& trial) {
  std::vector<std::string> names;
  for (const auto& folder : folders_in(trial.path.parent_path())) {
    std::error_code ignored;
    if (folder == trial.path || fs::exists(folder / "result.json", ignored)) continue;
    const auto record = job_record(folder);
    if (!record || record->packed_in != trial.record.packed_in || record->step != trial.record.step) continue;
    names.push_back(folder.filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Asks a trial through its own folder, since a signal would reach all trials of its step.
void ask_in_shared_step(const RunJob& trial, const std::string& step, const std::vector<std::string>& others) {
  if (ask_to_stop(trial.path)) return;
  std::error_code ignored;
  fs::remove(stop_mark(trial), ignored);
  throw Error(ErrorKind::kEnvironment,
              "trial '" + trial.path.filename().string() + "' takes no request, and shares step " + step + " with " +
                  joined(others, ", "),
              "`scancel " + step + "` ends all of them; a recipe takes requests from its first step on");
}

std::string stop_trial(const RunJob& trial, const Environment& env) {
  const auto& job = trial.record.job;
  const auto step = step_of(trial, env);
  if (step.empty()) return "the trial is left out when job " + job + " starts";
  const std::string rest = "; the others of job " + job + " go on";
  if (const auto others = names_beside(trial); !others.empty()) {
    ask_in_shared_step(trial, step, others);
    return "the trial writes a snapshot and ends" + rest;
  }
  if (!trial.record.is_recipe) {
    cancel({"scancel", step}, env);
    return "the trial is cancelled" + rest;
  }
  cancel({"scancel", "--signal=USR1", step}, env);
  return "the trial writes a snapshot and ends" + rest;
}

}  // namespace

std::vector<RunJob> run_jobs(const RunPlaces& places) {
  std::vector<RunJob> runs;
  add_runs(places.root, true, runs);
  for (const auto& path : places.elsewhere) {
    if (std::ranges::find(runs, path, &RunJob::path) != runs.end()) continue;
    if (auto record = job_record(path)) runs.push_back({path, std::move(*record)});
  }
  std::ranges::sort(runs, [](const auto& a, const auto& b) {
    return std::pair(b.record.submitted, a.path) < std::pair(a.record.submitted, b.path);
  });
  return runs;
}

RunJob latest_job(const RunPlaces& places) {
  auto runs = run_jobs(places);
  if (!runs.empty()) return std::move(runs.front());
  throw Error(ErrorKind::kUsage, "there is no submitted run in " + places.root.string(),
              "name a run folder or the number of a job");
}

std::optional<fs::path> local_run(const std::string& word, const RunPlaces& places) {
  std::error_code ignored;
  for (const auto& path : {plain_path(word), places.root / word}) {
    if (fs::exists(path / "layout.json", ignored) && !job_record(path)) return path;
  }
  return std::nullopt;
}

RunJob run_job(const std::string& word, const RunPlaces& places) {
  for (const auto& path : {plain_path(word), places.root / word}) {
    if (auto record = job_record(path)) return {path, std::move(*record)};
  }
  auto runs = run_jobs(places);
  // If a job has several trials, the job's own folder counts, which is the first one, and not that of a trial.
  const auto is_meant = [&word](const RunJob& run) {
    return (run.record.job == word && run.record.packed_in.empty()) || run.path.filename() == word;
  };
  if (auto found = std::ranges::find_if(runs, is_meant); found != runs.end()) return std::move(*found);
  check_may_read(word);
  std::error_code ignored;
  if (fs::is_directory(word, ignored)) {
    throw Error(ErrorKind::kUsage, "'" + word + "' has no job: it was not made by `lockstep submit`",
                "`lockstep ls` lists the runs that have one");
  }
  const auto names = map_each(runs, [](const RunJob& run) { return run.path.filename().string(); });
  const auto near = nearest_name(word, names);
  throw Error(ErrorKind::kUsage, "there is no run '" + word + "', neither here nor in " + places.root.string(),
              (near ? "did you mean '" + *near + "'? " : std::string()) + "`lockstep ls` lists them");
}

fs::path named_folder(const std::string& word, const RunPlaces& places) {
  std::error_code ignored;
  if (fs::is_directory(word, ignored)) {
    check_may_read(word);
    const auto path = fs::path(word).lexically_normal();
    if (path.has_filename() && path != "." && path != "..") return path;
    return absolute_folder(path);
  }
  if (fs::is_directory(places.root / word, ignored)) return places.root / word;
  return run_job(word, places).path;
}

std::string state_of(const RunJob& run, const QueuedJobs& queue) {
  const auto found = queue.find(run.record.job);
  std::error_code ignored;
  const bool is_finished = fs::exists(run.path / "result.json", ignored);
  if (found == queue.end()) {
    if (is_finished) return "finished";
    const auto end = run_end(run);
    return end ? end->state : "unknown";
  }
  // The other trials of this job continue without the one that is stopped.
  if (is_finished && !run.record.packed_in.empty()) return "finished";
  std::string state = found->second.state;
  std::ranges::transform(state, state.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // For a job that was submitted a moment ago, Slurm gives no reason yet why it waits.
  const auto& job = found->second;
  if (job.state == "PENDING" && job.reason != "None") state += " (" + job.reason + ")";
  return state;
}

std::string state_without_queue(const RunJob& run) {
  std::error_code ignored;
  if (fs::exists(run.path / "result.json", ignored)) return "finished";
  const auto end = final_end(run);
  return end ? end->state : "unknown";
}

std::string stop_run(const RunJob& run, const QueuedJobs& queue, const Environment& env) {
  const auto& job = run.record.job;
  const auto found = queue.find(job);
  if (found == queue.end()) return "job " + job + " has ended already";
  write_whole(stop_mark(run), "", false);
  if (!run.record.packed_in.empty()) return stop_trial(run, env);
  if (found->second.state == "RUNNING") {
    // A program that uses lockstep.py also sees requests.
    const bool is_heard = ask_to_stop(run.path, kBeforeASignal);
    if (!is_heard && run.record.is_recipe) cancel({"scancel", "--signal=USR1", job}, env);
    if (is_heard || run.record.is_recipe) return "job " + job + " writes a snapshot and ends";
  }
  cancel({"scancel", job}, env);
  return "job " + job + " is cancelled";
}

}  // namespace lockstep
