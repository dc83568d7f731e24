// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/scale/study.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_table.h"
#include "lockstep/cluster/job/submission.h"
#include "lockstep/cluster/job/sweep.h"
#include "lockstep/cluster/record/scaling_chart.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

std::string StudyPoint::label() const { return joined(sets, " "); }

std::vector<StudyPoint> study_points(const std::vector<int>& nodes, const std::vector<std::string>& vary) {
  std::vector<StudyPoint> points;
  // Without anything to vary there is one trial, which sets nothing.
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
  const Json object = {{"schema", 1}, {"is_local", study.is_local}, {"command", study.command}, {"points", points}};
  write_whole(study.folder / "study.json", object.dump(2) + "\n", false);
}

std::optional<Study> read_study(const fs::path& folder) {
  const auto path = folder / "study.json";
  if (!is_there(path)) return std::nullopt;
  try {
    const auto object = Json::parse(text_of_file(path));
    Study study{.folder = folder, .is_local = object.at("is_local"), .command = object.at("command"), .points = {}};
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
  if (is_there(run_dir / "result.json")) return PointState::kFinished;
  if (study.is_local) return PointState::kAbsent;
  const auto record = job_record(run_dir);
  if (!record) return PointState::kAbsent;
  const auto found = queue.find(record->job);
  if (found == queue.end()) return PointState::kFailed;
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

std::vector<ScalingRow> study_rows(const Study& study) {
  std::vector<RunFigures> runs;
  for (const auto& point : study.points) {
    if (!is_there(study.run_dir(point) / "result.json")) continue;
    runs.push_back(figures_of_run(study.run_dir(point)));
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
