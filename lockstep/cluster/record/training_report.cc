// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/training_report.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "lockstep/base/map_each.h"
#include "lockstep/base/median.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::map<std::string, double> metrics_of(const MetricsLine& line) {
  std::map<std::string, double> found;
  constexpr std::string_view kPrefix = "metrics.";
  for (const auto& [key, value] : line.values) {
    if (key.starts_with(kPrefix) && std::isfinite(value)) found[key.substr(kPrefix.size())] = value;
  }
  if (const double loss = number_of(line, "train_loss"); std::isfinite(loss)) found["train_loss"] = loss;
  return found;
}

std::optional<StepSpread> step_spread(const std::vector<LoggedSteps>& logged) {
  // At least two logged lines are needed, since the first one includes the slow start.
  if (logged.size() < 2) return std::nullopt;
  StepSpread spread{.median_s = median_of(map_each(logged, &LoggedSteps::step_s)),
                    .fastest_s = logged.front().step_s(),
                    .lines = logged.size()};
  for (const auto& each : logged) {
    spread.fastest_s = std::min(spread.fastest_s, each.step_s());
    if (each.step_s() <= spread.slowest_s) continue;
    spread.slowest_s = each.step_s();
    spread.slowest_at = each.to;
  }
  return spread;
}

std::optional<FirstEpoch> first_epoch(const TrainingReport& training) {
  std::vector<EpochTimes> whole;
  for (const auto& each : training.epochs) {
    if (each.is_whole) whole.push_back(each);
  }
  if (whole.size() < 2 || whole.front().epoch != 0) return std::nullopt;
  const auto first = whole.front();
  whole.erase(whole.begin());
  FirstEpoch found{.seconds = first.seconds, .later_s = median_of(map_each(whole, &EpochTimes::seconds))};
  for (const auto& each : whole) found.slowest_later_s = std::max(found.slowest_later_s, each.seconds);
  for (std::size_t phase = 0; phase < found.more_s.size(); ++phase) {
    found.more_s.at(phase) = first.phases_s.at(phase) -
                             median_of(map_each(whole, [&](const auto& each) { return each.phases_s.at(phase); }));
  }
  const auto& logged = training.logged;
  if (!logged.empty() && logged.front().from == 0 && training.step_spread) {
    found.first_steps = logged.front().to;
    found.first_steps_more_s =
        logged.front().seconds - static_cast<double>(found.first_steps) * training.step_spread->median_s;
  }
  return found;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Returns the snapshot to which the folder's link `best` leads, or else the existing snapshot with the lowest
/// val_loss.
std::optional<KeptSnapshot> kept_snapshot(const fs::path& folder, const std::vector<MetricsLine>& snapshots,
                                          const std::vector<MetricsLine>& validations) {
  std::error_code error;
  const auto best = fs::read_symlink(folder / "best", error).filename().string();
  std::optional<KeptSnapshot> found;
  for (const auto& line : snapshots) {
    const auto name = line.texts.find("snapshot");
    if (name == line.texts.end() || !is_there(folder / name->second)) continue;
    KeptSnapshot each{.name = name->second, .step = line.step, .is_best = name->second == best};
    for (const auto& validation : validations) {
      if (validation.step == line.step) each.metrics = metrics_of(validation);
    }
    if (each.is_best) return each;
    const auto loss = [](const KeptSnapshot& of) {
      const auto it = of.metrics.find("val_loss");
      return it == of.metrics.end() ? std::numeric_limits<double>::infinity() : it->second;
    };
    // If no snapshot has a loss, the newest one is returned.
    if (!found || loss(each) <= loss(*found)) found = each;
  }
  if (found && best.empty()) found->is_best = found->metrics.contains("val_loss");
  return found;
}

}  // namespace

std::optional<TrainingReport> training_report(const std::vector<RunSegment>& starts, const fs::path& snapshots_dir) {
  const auto last = std::find_if(starts.rbegin(), starts.rend(), [](const auto& each) { return each.steps() > 0; });
  if (last == starts.rend()) return std::nullopt;
  TrainingReport training;
  training.figures = figures_of(*last);
  const auto whole = [&](const char* key) { return static_cast<std::int64_t>(number_of(last->started, key, 0)); };
  training.parameters = whole("parameters");
  training.steps_planned = whole("steps_total");
  training.epochs_planned = whole("epochs");
  training.steps_per_epoch = whole("steps_per_epoch");
  training.steps_done = last->last_step;
  if (training.steps_per_epoch > 0) {
    training.epochs_done = static_cast<double>(training.steps_done) / static_cast<double>(training.steps_per_epoch);
  }
  if (last->has_ended()) training.time_to_first_step_s = number_of(last->ended, "time_to_first_step_s", 0);
  training.device_peak_bytes = static_cast<std::int64_t>(number_of(last->ended, "device_peak_bytes", 0));
  std::vector<MetricsLine> snapshots;
  for (const auto& start : starts) {
    training.epochs.insert(training.epochs.end(), start.epochs.begin(), start.epochs.end());
    training.logged.insert(training.logged.end(), start.logged.begin(), start.logged.end());
    for (const auto& line : start.marks) {
      (line.event == "snapshot" ? snapshots : training.validations).push_back(line);
      for (const auto& [name, value] : metrics_of(line)) training.metrics[name] = value;
    }
    for (const auto& [name, value] : metrics_of(start.ended)) training.metrics[name] = value;
  }
  if (training.metrics.empty() && !training.logged.empty() && std::isfinite(training.logged.back().loss)) {
    training.metrics["train_loss"] = training.logged.back().loss;
  }
  training.step_spread = step_spread(training.logged);
  training.first_epoch = first_epoch(training);
  training.snapshot = kept_snapshot(snapshots_dir, snapshots, training.validations);
  return training;
}

}  // namespace lockstep
