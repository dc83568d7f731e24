// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/scaling.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/base/unit_column.h"
#include "lockstep/cluster/record/telemetry_summary.h"
#include "lockstep/observe/run_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

RunSegment last_start(const RunFolder& folder) {
  auto starts = run_starts(folder.metrics());
  const bool has_ended = !starts.empty() && starts.back().has_ended();
  if (has_ended && starts.back().steps() > 0) return std::move(starts.back());
  throw Error(
      ErrorKind::kData,
      "the run in '" + folder.path().string() + "' " + (has_ended ? "took no step in its last start" : "has not ended"),
      "figures come from a run that has ended; its log tells what became of it");
}

nlohmann::json layout_of(const RunFolder& folder) {
  try {
    return nlohmann::json::parse(text_of_file(folder.layout()));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kData, "'" + folder.layout().string() + "' is not a layout: " + error.what(),
                "it is written by `lockstep train`");
  }
}

/// Returns what limits the scaling from `first` to `run`: the phase of an epoch that takes longest beyond its ideal
/// time. "none" if no phase does.
std::string limit_of(const RunFigures& run, const RunFigures& first) {
  const double share = static_cast<double>(first.ranks) / run.ranks;
  PhaseSeconds lost{};
  double all = 0;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    lost.at(i) = run.ranks == first.ranks ? run.phases_s.at(i) : run.phases_s.at(i) - first.phases_s.at(i) * share;
    all += lost.at(i);
  }
  if (all < kNoticedLoss * run.epoch_s) return "none";
  return std::string(kEpochPhases.at(static_cast<std::size_t>(std::ranges::max_element(lost) - lost.begin())));
}

using Row = const ScalingRow&;

template <typename Value>
ColumnValues values(const std::vector<ScalingRow>& rows, Value value) {
  ColumnValues all;
  for (const auto& row : rows) all.emplace_back(value(row));
  return all;
}

template <typename Text>
TableColumn text_column(const std::string& head, const std::vector<ScalingRow>& rows, Text text) {
  TableColumn column = {head};
  for (const auto& row : rows) column.push_back(text(row));
  return column;
}

}  // namespace

RunFigures figures_of_run(const fs::path& run_dir) {
  const auto folder = RunFolder::open(run_dir);
  const auto start = last_start(folder);
  auto run = figures_of(start);
  run.path = run_dir;
  run.nodes = layout_of(folder).value("nodes", 1);
  run.billing = billing_of_run(run_dir);
  for (const auto& node : telemetry_summary(run_dir).nodes) run.energy_joules += node.energy_joules();
  return run;
}

std::optional<double> RunFigures::kwh_per_sample() const {
  if (energy_joules <= 0 || samples <= 0 || !is_only_start) return std::nullopt;
  return energy_joules / 3.6e6 / static_cast<double>(samples);
}

RunFigures figures_of(const RunSegment& start) {
  LOCKSTEP_ASSERT(start.steps() > 0);
  RunFigures run;
  run.ranks = static_cast<int>(number_of(start.started, "world", 1));
  run.batch = number_of(start.started, "batch", 0);
  run.global_batch = static_cast<std::int64_t>(number_of(start.started, "global_batch", 0));
  run.steps = start.steps();
  const double steps_per_epoch = number_of(start.started, "steps_per_epoch", 0);
  const double epochs = static_cast<double>(run.steps) / (steps_per_epoch > 0 ? steps_per_epoch : 1);
  // If a run was resumed, the file counts the samples of all starts. The samples of this start are computed from its
  // steps.
  run.samples = run.steps * run.global_batch;
  if (start.started.step == 0) {
    run.samples = static_cast<std::int64_t>(number_of(start.ended, "samples", static_cast<double>(run.samples)));
  }
  run.samples_per_second = number_of(start.ended, "samples_per_second", 0);
  const double training_s = run.samples_per_second > 0 ? static_cast<double>(run.samples) / run.samples_per_second
                                                       : start.seconds_in_steps(start.started.step, start.last_step);
  if (run.samples_per_second <= 0 && training_s > 0) {
    run.samples_per_second = static_cast<double>(run.samples) / training_s;
  }
  run.is_only_start = start.started.step == 0;
  run.step_s = training_s / static_cast<double>(run.steps);
  run.epoch_s = start.seconds() / epochs;
  run.phases_s = {training_s / epochs, start.validation_s / epochs, start.snapshot_s / epochs, 0};
  run.phases_s.back() = std::max(0.0, run.epoch_s - run.phases_s[0] - run.phases_s[1] - run.phases_s[2]);
  run.start_s = number_of(start.ended, "time_to_first_step_s", 0);
  run.run_s = run.start_s + start.seconds();
  return run;
}

RunFigures program_figures(RunFigures run) {
  run.is_program = true;
  run.epoch_s = run.run_s;
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
  // Runs on different sites may be billed in different units, so their prices are not compared.
  const bool is_one_unit =
      std::ranges::all_of(rows, [&](const auto& row) { return row.run.billing.unit == rows.front().run.billing.unit; });
  const std::string unit = rows.empty() || !is_one_unit ? JobBilling{}.unit : rows.front().run.billing.unit;
  std::vector<TableColumn> columns = {
      text_column("nodes", rows, [](Row row) { return std::to_string(row.run.nodes); }),
      text_column("ranks", rows, [](Row row) { return std::to_string(row.run.ranks); })};
  const bool are_programs = std::ranges::any_of(rows, [](Row row) { return row.run.is_program; });
  const auto add = [&columns](TableColumn column) { columns.push_back(std::move(column)); };
  if (!are_programs) add(text_column("batch", rows, [](Row row) { return fixed(row.run.batch, 0); }));
  if (!are_programs) add(time_column("step", values(rows, [](Row row) { return row.run.step_s; })));
  add(time_column(are_programs ? "time" : "time per epoch", values(rows, [](Row row) { return row.run.epoch_s; })));
  add(text_column("speed-up", rows, [](Row row) { return fixed(row.speed_up, 2); }));
  add(text_column("efficiency", rows, [](Row row) { return fixed(row.efficiency * 100, 0) + " %"; }));
  add(number_column(
      unit, values(rows, [&](Row row) { return is_one_unit ? row.run.billed_hours() : row.run.node_hours(); })));
  if (!are_programs) add(text_column("samples/s", rows, [](Row row) { return fixed(row.run.samples_per_second, 0); }));
  const auto energy = values(rows, [](Row row) { return row.run.kwh_per_sample(); });
  if (std::ranges::any_of(energy, [](const auto& each) { return each.has_value(); }))
    columns.push_back(text_column("kWh/sample", rows, [](Row row) {
      const auto each = row.run.kwh_per_sample();
      return each ? significant(*each, 3) : "-";
    }));
  if (!are_programs) columns.push_back(text_column("limit", rows, [](Row row) { return row.limit; }));
  if (has_labels) columns.insert(columns.begin(), text_column("varied", rows, [](Row row) { return row.run.label; }));
  return rows_of_columns(columns);
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
                    {"is_program", run.is_program},
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
                    {"billed_hours", run.billed_hours()},
                    {"billing_unit", run.billing.unit},
                    {"kwh_per_sample", run.kwh_per_sample() ? nlohmann::ordered_json(*run.kwh_per_sample()) : nullptr},
                    {"limit", row.limit}});
  }
  return list;
}

}  // namespace lockstep
