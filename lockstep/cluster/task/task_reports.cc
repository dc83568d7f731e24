// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/task_reports.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text_format.h"
#include "lockstep/observe/rank_answer.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

double seconds_of(TaskReports::Time time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

std::string file_of(int rank) { return rank_name(rank) + ".json"; }

/// Returns the part of a report that a parent has seen from outside.
json view_in(const json& told) {
  json view = nullptr;
  for (const char* key : {"stack", "stack_note", "python", "python_note", "process", "flight_record", "below"}) {
    if (told.contains(key)) view[key] = told.at(key);
  }
  return view;
}

}  // namespace

void TaskReports::tell(const RankSight& rank, const json& view, Time now) const {
  make_folder(folder_);
  auto object = object_of(rank);
  if (view.is_object()) object.update(view);
  object["time"] = seconds_of(now);
  const auto text = json_text(object) + "\n";
  write_whole(folder_ / file_of(rank.rank), text, false);
}

void TaskReports::take_back(int rank) const {
  std::error_code ignored;
  fs::remove(folder_ / file_of(rank), ignored);
}

TaskReports::Known TaskReports::read(const fs::path& path) const {
  Known known;
  const auto object = json::parse(text_or_nothing(path), nullptr, false);
  if (!object.is_object()) return known;
  auto sight = rank_sight_of(object);
  if (!sight) return known;
  known.time = object.contains("time") && object["time"].is_number() ? object["time"].get<double>() : 0;
  known.report = {.sight = *std::move(sight), .view = view_in(object)};
  return known;
}

std::vector<ReportedRank> TaskReports::since(Time since, Time now_time) {
  std::map<std::string, Known> now;
  std::vector<ReportedRank> found;
  for (const auto& name : names_in(folder_)) {
    if (!name.ends_with(".json")) continue;
    std::error_code error;
    const auto changed = fs::last_write_time(folder_ / name, error);
    const auto bytes = fs::file_size(folder_ / name, error);
    if (error) continue;
    const auto before = known_.find(name);
    const bool is_same = before != known_.end() && before->second.changed == changed && before->second.bytes == bytes;
    auto& known = now[name] = is_same ? std::move(before->second) : read(folder_ / name);
    known.changed = changed;
    known.bytes = bytes;
    if (!known.report || known.time < seconds_of(since)) continue;
    found.push_back(*known.report);
    found.back().sight.age_s += std::max(0.0, seconds_of(now_time) - known.time);
  }
  known_ = std::move(now);
  std::ranges::sort(found, {}, [](const auto& each) { return each.sight.rank; });
  return found;
}

}  // namespace lockstep
