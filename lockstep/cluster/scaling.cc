// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/scaling.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/plan_text.h"
#include "lockstep/observe/metrics.h"
#include "lockstep/observe/run_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr double kNoticedLoss = 0.1;  ///< Of an epoch.

/// The lines of a run's last start.
struct LastStart {
  MetricsLine started;
  MetricsLine ended;
  double validation_s = 0;
  double snapshot_s = 0;
};

LastStart last_start(const RunFolder& folder) {
  LastStart found;
  for (const auto& line : read_metrics(folder.metrics()).lines) {
    if (line.event == "run_started") found = {.started = line, .ended = {}};
    if (line.event == "validation") found.validation_s += line.values.at("seconds");
    if (line.event == "snapshot") found.snapshot_s += line.values.at("seconds");
    if (line.event == "run_ended") found.ended = line;
  }
  const auto steps = found.ended.step - found.started.step;
  if (!found.ended.event.empty() && steps > 0) return found;
  throw Error(ErrorKind::kData,
              "the run in '" + folder.path().string() + "' " +
                  (found.ended.event.empty() ? "has not ended" : "took no step in its last start"),
              "figures come from a run that has ended; its log tells what became of it");
}

nlohmann::json layout_of(const RunFolder& folder) {
  try {
    return nlohmann::json::parse(text_of_file(folder.layout()));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kData, "'" + folder.layout().string() + "' is no layout: " + error.what(),
                "it is written by `lockstep train`");
  }
}

/// How much longer than its share each phase takes, when ranks are `by` times as many.
std::string limit_of(const RunFigures& run, const RunFigures& first) {
  const double share = static_cast<double>(first.ranks) / run.ranks;
  std::array<double, kEpochPhases.size()> lost{};
  double all = 0;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    lost.at(i) = run.ranks == first.ranks ? run.phases_s.at(i) : run.phases_s.at(i) - first.phases_s.at(i) * share;
    all += lost.at(i);
  }
  if (all < kNoticedLoss * run.epoch_s) return "none";
  return std::string(kEpochPhases.at(static_cast<std::size_t>(std::ranges::max_element(lost) - lost.begin())));
}

}  // namespace

RunFigures figures_of_run(const fs::path& run_dir) {
  const auto folder = RunFolder::open(run_dir);
  const auto lines = last_start(folder);
  const auto layout = layout_of(folder);
  const auto& started = lines.started.values;
  const auto& ended = lines.ended.values;
  RunFigures run;
  run.path = run_dir;
  run.nodes = layout.value("nodes", 1);
  run.ranks = static_cast<int>(started.at("world"));
  run.batch = started.at("batch");
  run.global_batch = static_cast<std::int64_t>(started.at("global_batch"));
  run.steps = lines.ended.step - lines.started.step;
  run.samples_per_second = ended.at("samples_per_second");
  const double seconds = ended.at("seconds");
  const double epochs = static_cast<double>(run.steps) / started.at("steps_per_epoch");
  // Of a resumed run the file holds all samples: those of this start follow from its rate and steps.
  run.samples = lines.started.step == 0 ? static_cast<std::int64_t>(ended.at("samples")) : run.steps * run.global_batch;
  const double training_s = static_cast<double>(run.samples) / run.samples_per_second;
  run.step_s = training_s / static_cast<double>(run.steps);
  run.epoch_s = seconds / epochs;
  run.phases_s = {training_s / epochs, lines.validation_s / epochs, lines.snapshot_s / epochs, 0};
  run.phases_s.back() = std::max(0.0, run.epoch_s - run.phases_s[0] - run.phases_s[1] - run.phases_s[2]);
  run.start_s = ended.at("time_to_first_step_s");
  run.run_s = run.start_s + seconds;
  return run;
}

std::vector<ScalingRow> scaling_rows(std::vector<RunFigures> runs) {
  std::map<std::string, std::size_t> order;
  for (const auto& run : runs) order.try_emplace(run.label, order.size());
  std::ranges::stable_sort(runs, {}, [&](const auto& run) { return std::pair(order.at(run.label), run.ranks); });
  std::vector<ScalingRow> rows;
  std::map<std::string, RunFigures> firsts;
  for (auto& run : runs) {
    const auto& first = firsts.try_emplace(run.label, run).first->second;
    ScalingRow row{.run = run, .limit = limit_of(run, first)};
    row.speed_up = first.epoch_s / run.epoch_s;
    row.efficiency = row.speed_up * first.ranks / run.ranks;
    rows.push_back(std::move(row));
  }
  return rows;
}

TableRows scaling_table(const std::vector<ScalingRow>& rows) {
  const bool has_labels = std::ranges::any_of(rows, [](const auto& row) { return !row.run.label.empty(); });
  TableRows table = {{"nodes", "ranks", "batch", "step", "time per epoch", "speed-up", "efficiency", "node-hours",
                      "samples/s", "limit"}};
  for (const auto& row : rows) {
    const auto& run = row.run;
    table.push_back({std::to_string(run.nodes), std::to_string(run.ranks), fixed(run.batch, 0),
                     human_seconds(run.step_s), human_seconds(run.epoch_s), fixed(row.speed_up, 2),
                     fixed(row.efficiency * 100, 0) + " %", fixed(run.node_hours(), run.node_hours() < 1 ? 5 : 2),
                     fixed(run.samples_per_second, 0), row.limit});
  }
  if (!has_labels) return table;
  table[0].insert(table[0].begin(), "varied");
  for (std::size_t i = 0; i < rows.size(); ++i) table[i + 1].insert(table[i + 1].begin(), rows[i].run.label);
  return table;
}

nlohmann::ordered_json scaling_json(const std::vector<ScalingRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& row : rows) {
    const auto& run = row.run;
    nlohmann::ordered_json phases;
    for (std::size_t i = 0; i < kEpochPhases.size(); ++i) phases[std::string(kEpochPhases.at(i))] = run.phases_s.at(i);
    list.push_back({{"run_dir", run.path.string()},
                    {"varied", run.label},
                    {"nodes", run.nodes},
                    {"ranks", run.ranks},
                    {"batch", run.batch},
                    {"global_batch", run.global_batch},
                    {"steps", run.steps},
                    {"step_s", run.step_s},
                    {"epoch_s", run.epoch_s},
                    {"phases_s", phases},
                    {"start_s", run.start_s},
                    {"run_s", run.run_s},
                    {"samples_per_second", run.samples_per_second},
                    {"speed_up", row.speed_up},
                    {"efficiency", row.efficiency},
                    {"node_hours", run.node_hours()},
                    {"limit", row.limit}});
  }
  return list;
}

}  // namespace lockstep
