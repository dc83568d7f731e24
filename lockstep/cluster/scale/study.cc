// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/scale/study.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_table.h"
#include "lockstep/cluster/flag/sweep.h"
#include "lockstep/cluster/job/run_end.h"
#include "lockstep/cluster/job/submission.h"
#include "lockstep/cluster/record/exit_record.h"
#include "lockstep/cluster/record/scaling_chart.h"
#include "lockstep/cluster/record/telemetry_summary.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kProgramTime = "program.json";  ///< Of one that was started on this machine.

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Returns the time of a program that was started on this machine.
RunFigures local_program(const fs::path& run_dir) {
  const auto object = Json::parse(text_of_file(run_dir / kProgramTime));
  return program_figures({.ranks = object.at("ranks"), .run_s = object.at("seconds")});
}

/// Returns the time of a program that was submitted and ended well.
RunFigures submitted_program(const fs::path& run_dir, const JobRecord& record) {
  RunFigures run{.nodes = record.nodes, .ranks = record.tasks};
  double first = 0;
  for (const auto& node : telemetry_summary(run_dir).nodes) {
    if (node.first > 0) first = first > 0 ? std::min(first, node.first) : node.first;
    run.run_s = std::max(run.run_s, node.alive_s);
    run.energy_joules += node.energy_joules();
  }
  for (const auto& rank : read_exits(run_dir).ranks) {
    if (first > 0 && rank.job == record.job) run.run_s = std::max(run.run_s, rank.time - first);
  }
  run.billing = record.billing;
  return program_figures(std::move(run));
}

RunFigures figures_of(const Study& study, const fs::path& run_dir) {
  if (!study.is_program) return figures_of_run(run_dir);
  auto run = study.is_local ? local_program(run_dir) : submitted_program(run_dir, *job_record(run_dir));
  run.path = run_dir;
  return run;
}

}  // namespace

std::string StudyPoint::label() const { return joined(sets, " "); }

std::vector<StudyPoint> study_points(const std::vector<int>& nodes, const std::vector<std::string>& vary) {
  std::vector<StudyPoint> points;
  // If nothing is varied, there is one trial, which changes no setting.
  for (const auto& trial : trials_of(vary, "--vary")) {
    for (const int each : nodes) {
      points.push_back({.folder = trial.name + "-nodes-" + std::to_string(each), .nodes = each, .sets = trial.sets});
    }
  }
  return points;
}

void write_study(const Study& study) {
  auto points = Json::array();
  for (const auto& point : study.points) {
    points.push_back({{"folder", point.folder}, {"nodes", point.nodes}, {"sets", point.sets}});
  }
  make_folder(study.folder);
  const Json object = {{"schema", 1},
                       {"is_local", study.is_local},
                       {"is_program", study.is_program},
                       {"command", study.command},
                       {"points", points}};
  write_whole(study.folder / "study.json", json_text(object, 2) + "\n", false);
}

std::optional<Study> read_study(const fs::path& folder) {
  const auto path = folder / "study.json";
  if (!is_there(path)) return std::nullopt;
  try {
    const auto object = Json::parse(text_of_file(path));
    Study study{.folder = folder,
                .is_local = object.at("is_local"),
                .is_program = object.value("is_program", false),
                .command = object.at("command"),
                .points = {}};
    for (const auto& each : object.at("points")) {
      study.points.push_back({.folder = each.at("folder"), .nodes = each.at("nodes"), .sets = each.at("sets")});
    }
    return study;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kData, "'" + path.string() + "' holds no study: " + error.what(),
                "name another folder with --study-dir");
  }
}

PointState state_of(const Study& study, const StudyPoint& point, const QueuedJobs& queue) {
  const auto run_dir = study.run_dir(point);
  if (is_there(run_dir / "result.json") || is_there(run_dir / kProgramTime)) return PointState::kFinished;
  if (study.is_local) return PointState::kAbsent;
  const auto record = job_record(run_dir);
  if (!record) return PointState::kAbsent;
  const auto found = queue.find(record->job);
  if (found == queue.end()) {
    const auto end = study.is_program ? run_end({run_dir, *record, {}}) : std::nullopt;
    return end && end->state == "ended" ? PointState::kFinished : PointState::kFailed;
  }
  return found->second.state == "PENDING" ? PointState::kWaiting : PointState::kRunning;
}

std::string progress_of(const std::vector<PointState>& states) {
  static constexpr std::array<std::pair<PointState, const char*>, 4> kShown = {{{PointState::kRunning, "running"},
                                                                                {PointState::kWaiting, "waiting"},
                                                                                {PointState::kFailed, "failed"},
                                                                                {PointState::kAbsent, "not started"}}};
  std::string text = std::to_string(std::ranges::count(states, PointState::kFinished)) + " of " +
                     std::to_string(states.size()) + " finished";
  for (const auto& [state, name] : kShown) {
    if (const auto count = std::ranges::count(states, state)) text += ", " + std::to_string(count) + " " + name;
  }
  return text;
}

void write_program_time(const fs::path& run_dir, int ranks, double seconds) {
  write_whole(run_dir / kProgramTime, Json{{"schema", 1}, {"ranks", ranks}, {"seconds", seconds}}.dump() + "\n", false);
}

std::vector<ScalingRow> study_rows(const Study& study) {
  std::vector<RunFigures> runs;
  for (const auto& point : study.points) {
    if (state_of(study, point, {}) != PointState::kFinished) continue;
    runs.push_back(figures_of(study, study.run_dir(point)));
    runs.back().label = point.label();
  }
  return scaling_rows(std::move(runs));
}

void write_results(const Study& study, const std::vector<ScalingRow>& rows) {
  const auto table = scaling_table(rows);
  write_whole(
      study.folder / "scaling.md",
      "# Scaling\n\n`" + study.command + "`\n\n" + markdown_table(table) + "\n![Speed-up over ranks](scaling.svg)\n",
      false);
  write_whole(study.folder / "scaling.csv", csv_table(table), false);
  write_whole(study.folder / "scaling.json", Json{{"schema", 1}, {"rows", scaling_json(rows)}}.dump(2) + "\n", false);
  write_whole(study.folder / "scaling.svg", scaling_chart(rows), false);
}

}  // namespace lockstep
