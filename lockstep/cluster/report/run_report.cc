// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/run_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/observe/process_identity.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/recipe/recipe.h"
#include "lockstep/recipe/typed_value.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Sets the run's numbers of nodes and tasks. They come from the run's layout, or else from its job, or else from its
/// agents.
void take_size(RunReport& report) {
  if (report.job) {
    report.nodes = std::max(1, report.job->nodes);
    report.tasks = report.job->tasks;
  }
  if (const auto path = report.path / "layout.json"; is_there(path)) {
    const auto layout = nlohmann::json::parse(text_of_file(path), nullptr, false);
    if (layout.is_object()) {
      const auto whole = [&](const char* key, int otherwise) {
        return layout.contains(key) && layout[key].is_number_integer() ? layout[key].get<int>() : otherwise;
      };
      report.nodes = std::max(1, whole("nodes", report.nodes));
      report.tasks = whole("world", report.tasks);
    }
  }
  const auto& nodes = report.telemetry.nodes;
  if (report.tasks == 0 && !nodes.empty()) {
    report.nodes = static_cast<int>(nodes.size());
    for (const auto& node : nodes) report.tasks += node.tasks;
  }
}

std::map<std::string, std::string> settings_of(const fs::path& recipe) {
  std::map<std::string, std::string> found;
  if (!is_there(recipe)) return found;
  try {
    // The run's recipe.toml has the settings that the run used. Variables and files of this process must not override
    // them.
    const auto read = Recipe::load(recipe, Environment({}), {}, Gaps::kAllowed);
    for (const auto& [key, setting] : read.settings()) found[key] = toml_of(setting.value);
  } catch (const Error&) {
    // Another version wrote the recipe, so this one cannot read it. The report leaves it out.
    found.clear();
  }
  return found;
}

void take_times(const std::vector<RunSegment>& starts, RunReport& report) {
  const auto seen = [&report](double first, double last) {
    if (first <= 0) return;
    report.started = std::min(report.started.value_or(first), first);
    report.last = std::max(report.last.value_or(last), last);
  };
  for (const auto& start : starts) {
    seen(start.started_at(), start.last_time);
    report.alive_s += number_of(start.ended, "time_to_first_step_s", 0) + start.seconds();
  }
  report.starts = static_cast<int>(starts.size());
  double longest = 0;
  for (const auto& node : report.telemetry.nodes) {
    seen(node.first, node.last);
    longest = std::max(longest, node.alive_s);
    if (starts.empty()) report.starts = std::max(report.starts, node.agents);
  }
  // Agents live as long as their tasks, also before the first and after the last step.
  report.alive_s = std::max(report.alive_s, longest);
}

/// Sets the sizes of a run whose starts had different numbers of ranks. The number of ranks on each node is the same in
/// every start.
void take_sizes(const std::vector<RunSegment>& starts, RunReport& report) {
  const double per_node = std::max(1.0, static_cast<double>(report.tasks) / report.nodes);
  std::vector<int> sizes;
  double node_s = 0;
  for (const auto& start : starts) {
    const double nodes = std::ceil(number_of(start.started, "world", report.tasks) / per_node);
    sizes.push_back(static_cast<int>(nodes));
    node_s += nodes * (number_of(start.ended, "time_to_first_step_s", 0) + start.seconds());
  }
  if (std::ranges::adjacent_find(sizes, std::ranges::not_equal_to()) == sizes.end()) return;
  report.sizes = std::move(sizes);
  report.node_s = node_s;
}

/// True if the process that last held the lock of the run folder still lives, as far as this machine can tell.
Liveness holder_of(const fs::path& run_dir, const Environment& env) {
  if (!is_there(run_dir / "run.lock")) return Liveness::kUnknown;
  const auto holder = ProcessIdentity::from_json(trimmed(text_of_file(run_dir / "run.lock")));
  return holder ? liveness(*holder, ProcessIdentity::of_process(env)) : Liveness::kUnknown;
}

/// Returns the last lines of a log that are not empty.
std::vector<std::string> last_lines(const fs::path& log) {
  constexpr std::streamoff kMostBytes = 8 << 10;
  constexpr std::ptrdiff_t kMostLines = 12;
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kMostBytes));
  auto lines = split(std::string(std::istreambuf_iterator<char>(file), {}), '\n');
  std::erase_if(lines, [](const auto& line) { return trimmed(line).empty(); });
  if (std::ssize(lines) > kMostLines) lines.erase(lines.begin(), lines.end() - kMostLines);
  return lines;
}

/// Sets how the job ended, if it is not in the queue any more.
void take_end(RunReport& report, const std::optional<QueuedJobs>& queue, const std::optional<JobExit>& learned) {
  if (!report.job || (queue && queue->contains(report.job->job))) return;
  const RunJob run{report.path, *report.job, learned};
  report.end = run_end(run);
  if (report.end) report.first_exit = rank_at_fault(run, *report.end);
  if (!report.end || report.end->code == 0 || report.end->state == "stopped") return;
  if (report.first_exit) report.last_lines = report.first_exit->rank.last;
  if (report.last_lines.empty()) report.last_lines = last_lines(report.path / "logs" / "job.log");
}

RunState state_without_end(const RunReport& report, const std::optional<QueuedJobs>& queue, const Environment& env) {
  if (report.job && queue) {
    const auto found = queue->find(report.job->job);
    if (found != queue->end()) return found->second.state == "PENDING" ? RunState::kWaiting : RunState::kRunning;
  }
  if (report.end && report.end->state == "stopped") return RunState::kStopped;
  if (report.end && report.end->state != "ended") return RunState::kFailed;
  if (report.job && !queue) return RunState::kUnknown;
  const auto holder = holder_of(report.path, env);
  if (holder == Liveness::kAlive) return RunState::kRunning;
  const auto& nodes = report.telemetry.nodes;
  const bool agents_ended = !nodes.empty() && std::ranges::all_of(nodes, &NodeSummary::has_ended);
  if (agents_ended) return report.training ? RunState::kBroken : RunState::kEnded;
  if (holder == Liveness::kDead) return RunState::kBroken;
  if (report.job) return report.training ? RunState::kBroken : RunState::kEnded;
  return RunState::kUnknown;
}

bool has_event_files(const fs::path& run_dir) {
  std::error_code error;
  for (fs::directory_iterator it(run_dir, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().filename().string().starts_with("events.out.tfevents")) return true;
  }
  return false;
}

void take_starts(const std::vector<RunSegment>& starts, RunReport& report) {
  constexpr std::string_view kPrefix = "facts.";
  for (const auto& start : starts) {
    for (const auto* line : {&start.started, &start.ended}) {
      for (const auto& [key, value] : line->texts) {
        if (key.starts_with(kPrefix)) report.facts[key.substr(kPrefix.size())] = value;
      }
    }
  }
  if (starts.empty()) return;
  const auto& ended = starts.back().ended.texts;
  if (const auto it = ended.find("stopped_by"); it != ended.end()) report.stopped_by = it->second;
}

}  // namespace

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::kWaiting:
      return "waiting";
    case RunState::kRunning:
      return "running";
    case RunState::kFinished:
      return "finished";
    case RunState::kStopped:
      return "stopped";
    case RunState::kEnded:
      return "ended";
    case RunState::kFailed:
      return "failed";
    case RunState::kBroken:
      return "broken off";
    case RunState::kUnknown:
      return "no end recorded";
  }
  return {};
}

double RunReport::billed_hours() const {
  if (sizes.empty()) return billing().hours(alive_s, nodes);
  // If the job requested a range of nodes, the price is that for the most nodes.
  const int most = job ? std::max(1, job->nodes) : nodes;
  return billing().hours(node_s / most, most);
}

double RunReport::energy_joules() const {
  double joules = 0;
  for (const auto& node : telemetry.nodes) joules += node.energy_joules();
  return joules;
}

std::optional<double> RunReport::kwh_per_sample() const {
  const double samples =
      training ? static_cast<double>(training->steps_done) * static_cast<double>(training->figures.global_batch) : 0;
  const double joules = energy_joules();
  return samples > 0 && joules > 0 ? std::optional(joules / 3.6e6 / samples) : std::nullopt;
}

RunReport run_report(const fs::path& run_dir, const std::optional<QueuedJobs>& queue, const Environment& env,
                     const std::optional<JobExit>& learned) {
  RunReport report{.path = run_dir, .name = run_dir.filename().string(), .job = job_record(run_dir)};
  const auto metrics = run_dir / "metrics.jsonl";
  std::vector<RunSegment> starts;
  if (is_there(metrics)) starts = run_starts(metrics);
  report.telemetry = telemetry_summary(run_dir);
  if (starts.empty() && report.telemetry.nodes.empty() && !report.job) {
    throw Error(ErrorKind::kData,
                "'" + run_dir.string() + "' holds nothing to report: no run in metrics.jsonl, no " +
                    "telemetry-NODE.jsonl with a line, no job.json",
                "give the folder of a run; `lockstep train` prints it at its end, `lockstep ls` lists submitted ones");
  }
  report.training = training_report(starts, run_dir / "snapshots");
  report.settings = settings_of(run_dir / "recipe.toml");
  report.has_event_files = has_event_files(run_dir);
  take_size(report);
  take_starts(starts, report);
  take_times(starts, report);
  take_sizes(starts, report);
  take_end(report, queue, learned);
  if (report.training) {
    report.training->figures.path = fs::absolute(run_dir);
    report.training->figures.nodes = report.nodes;
    report.training->figures.billing = report.billing();
  }
  if (is_there(run_dir / "result.json")) {
    report.state = RunState::kFinished;
  } else if (!starts.empty() && starts.back().has_ended()) {
    report.state = RunState::kStopped;
  } else {
    report.state = state_without_end(report, queue, env);
  }
  return report;
}

std::string tensorboard_tunnel(const RunReport& report, const Environment& env) {
  if (!report.has_event_files) return {};
  const ProfileLibrary library(env);
  const auto names = library.names();
  const bool is_known = report.job && std::ranges::find(names, report.job->cluster) != names.end();
  const auto profile = is_known ? library.named(report.job->cluster) : library.detected(HostFacts::of_process(env));
  // The generic profile does not know the login machine.
  if (profile.software.tunnel.empty() || profile.software.login.empty()) return {};
  return expand_template(profile.software.tunnel,
                         {{"port", kTensorboardPort}, {"node", "localhost"}, {"login", profile.software.login}});
}

}  // namespace lockstep
