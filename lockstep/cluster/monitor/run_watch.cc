// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/run_watch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text_format.h"
#include "lockstep/observe/metrics.h"
#include "lockstep/observe/process_identity.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// The most bytes of telemetry that are read at the first look at a long run, for all nodes together.
constexpr std::int64_t kMostTelemetryBytes = std::int64_t{512} << 20;
constexpr std::int64_t kLeastTailBytes = std::int64_t{128} << 10;
constexpr std::string_view kMetrics = "metrics.jsonl";

bool is_run(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "job.json", none) || fs::exists(folder / kMetrics, none) ||
         !telemetry_files(folder).empty();
}

/// Returns the time at which the run last wrote a file, in seconds since 1970.
double last_written(const fs::path& run_dir) {
  auto files = telemetry_files(run_dir);
  files.push_back(run_dir / kMetrics);
  double latest = 0;
  for (const auto& file : files) {
    std::error_code none;
    const auto at = fs::last_write_time(file, none);
    if (none) continue;
    const auto since = std::chrono::file_clock::to_sys(at).time_since_epoch();
    latest = std::max(latest, std::chrono::duration<double>(since).count());
  }
  return latest;
}

FirstLook first_look(std::size_t files) {
  const auto share = kMostTelemetryBytes / static_cast<std::int64_t>(std::max<std::size_t>(files, 1));
  return {.head_bytes = FirstLook().head_bytes,
          .tail_bytes = std::clamp(share, kLeastTailBytes, FirstLook().tail_bytes)};
}

/// The new telemetry lines of one node. Only the last two samples are needed, so only these are parsed.
void read_node(GrowingFile& file, NodeHistory& history) {
  std::array<std::string, 2> samples;
  const auto take = [&](std::string_view line) {
    if (const auto parsed = parsed_telemetry(line)) history.take(*parsed);
  };
  const auto take_samples = [&] {
    for (auto& sample : samples) {
      if (!sample.empty()) take(std::exchange(sample, {}));
    }
  };
  file.read([&](std::string_view line) {
    // A text value in a line cannot contain this, since quotes in a value are escaped.
    if (line.find(R"("event":"sample")") != std::string_view::npos) {
      samples[0] = std::exchange(samples[1], std::string(line));
    } else {
      take_samples();
      take(line);
    }
  });
  take_samples();
}

/// True if a process of `lockstep train` still holds the lock of the run folder, as far as this machine can tell.
bool is_held(const fs::path& run_dir) {
  const auto holder = ProcessIdentity::from_json(text_or_nothing(run_dir / "run.lock"));
  return holder && liveness(*holder, ProcessIdentity::of_process({})) != Liveness::kDead;
}

int first_rank(const NodeStatus& node) {
  return node.tasks.empty() ? std::numeric_limits<int>::max() : node.tasks.front().rank;
}

std::string note_of(const RunStatus& status) {
  const auto told = static_cast<int>(status.node_list.size());
  if (status.state != "running") return {};
  if (told == 0 && !status.job.empty()) {
    return "no node has written telemetry: without `lockstep exec` none does; --live asks the nodes";
  }
  if (told > 0 && told < status.nodes) {
    return counted(status.nodes - told, "node") + " of " + std::to_string(status.nodes) +
           " have written no telemetry yet";
  }
  return {};
}

}  // namespace

fs::path watched_run(const std::string& word, const RunPlaces& places) {
  auto path = fs::absolute(named_folder(word, places)).lexically_normal();
  if (is_run(path)) return path;
  throw Error(ErrorKind::kUsage, "'" + word + "' holds no run: no job.json, no metrics.jsonl, no telemetry-NODE.jsonl",
              "`lockstep ls` lists submitted runs");
}

fs::path latest_run(const RunPlaces& places) {
  const auto& root = places.root;
  std::pair<double, fs::path> latest;
  if (const auto runs = run_jobs(places); !runs.empty()) {
    latest = {static_cast<double>(runs.front().record.submitted), runs.front().path};
  }
  for (const auto& name : names_in(root)) {
    std::error_code none;
    const auto path = root / name;
    if (!fs::is_directory(path, none) || fs::exists(path / "job.json", none)) continue;
    if (const auto written = last_written(path); written > latest.first) latest = {written, path};
  }
  if (!latest.second.empty()) return latest.second;
  throw Error(ErrorKind::kUsage, "there is no run in " + root.string(),
              "name a run folder, or a job's number with --live");
}

RunWatch::RunWatch(fs::path run_dir) : run_dir_(std::move(run_dir)), metrics_(run_dir_ / kMetrics) {}

bool RunWatch::has_job() const {
  std::error_code none;
  return fs::exists(run_dir_ / "job.json", none);
}

void RunWatch::read() {
  const auto files = telemetry_files(run_dir_);
  for (const auto& path : files) {
    auto& node =
        nodes_.try_emplace(path.filename().string(), Node{GrowingFile(path, first_look(files.size()))}).first->second;
    read_node(node.file, node.history);
  }
  metrics_.read([this](std::string_view line) {
    if (const auto parsed = parsed_metrics(line)) training_.take(*parsed);
  });
}

bool RunWatch::all_have_ended() const {
  return !nodes_.empty() &&
         std::ranges::all_of(nodes_, [](const auto& each) { return each.second.history.has_ended(); });
}

bool RunWatch::says_something(double now) const {
  return std::ranges::any_of(nodes_, [now](const auto& each) { return each.second.history.is_fresh(now); });
}

bool RunWatch::place_in_queue(RunStatus& status, const std::optional<QueuedJobs>& queue) const {
  const auto record = job_record(run_dir_);
  if (!record) return false;
  status.job = record->job;
  status.nodes = record->nodes;
  status.tasks = record->tasks;
  if (!queue || !queue->contains(record->job)) return false;
  status.state = state_of({run_dir_, *record}, *queue);
  const auto& start = queue->at(record->job).start;
  if (status.state.starts_with("pending") && start.starts_with("2")) status.note = "may start at " + start;
  return status.state != "finished";
}

RunStatus RunWatch::look(const std::optional<QueuedJobs>& queue, double now) {
  read();
  RunStatus status{.name = run_dir_.filename().string(), .run_dir = run_dir_};
  const bool is_queued = place_in_queue(status, queue);
  status.training = training_.status(now);
  const bool has_ended = (status.training && status.training->has_ended) || all_have_ended();
  // The queue lists only this user's jobs. For another user's run, and for a run without a job, only the run's own
  // files tell whether it lives.
  const bool queue_tells = queue && !status.job.empty();
  const bool lives = is_queued || says_something(now) || (!queue_tells && !has_ended && is_held(run_dir_));
  status.is_over = !lives;
  if (status.state.starts_with("pending") && says_something(now)) {
    // The queue's answer is from before the job started, so it is not used.
    status.state = "running";
    status.note.clear();
  }
  if (!is_queued) {
    std::error_code none;
    const bool is_finished = fs::exists(run_dir_ / "result.json", none);
    status.state = lives ? "running" : is_finished ? "finished" : "ended";
    const auto record = job_record(run_dir_);
    const auto state = [&](const RunJob& run) { return queue ? state_of(run, {}) : state_without_queue(run); };
    if (!lives && record) status.state = state({run_dir_, *record});
  }
  for (const auto& [name, node] : nodes_) {
    status.node_list.push_back(node.history.status(now));
    auto& last = status.node_list.back();
    last.is_silent = lives && status.state == "running" && !last.has_ended && !node.history.is_fresh(now);
    const auto findings = node.history.findings();
    status.findings.insert(status.findings.end(), findings.begin(), findings.end());
  }
  std::ranges::stable_sort(status.node_list, {}, first_rank);
  if (status.nodes == 0) status.nodes = static_cast<int>(status.node_list.size());
  for (const auto& node : status.node_list) {
    if (status.job.empty()) status.tasks += node.local_world;
  }
  const auto is_stuck = [](const NodeFinding& each) { return each.code == "tasks-stuck"; };
  if (std::ranges::any_of(status.findings, is_stuck)) status.odd_rank = odd_rank(status.node_list);
  if (status.note.empty()) status.note = note_of(status);
  return status;
}

}  // namespace lockstep
