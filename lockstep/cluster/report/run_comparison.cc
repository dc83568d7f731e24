// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/run_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/report/numbers.h"

namespace lockstep {
namespace {

constexpr std::string_view kStrategy = "trainer.strategy";

using Settings = std::map<std::string, std::string>;

bool is_dp(const Settings& settings) {
  const auto it = settings.find(std::string(kStrategy));
  return it != settings.end() && it->second == "\"dp\"";
}

/// True if the setting only changes where a run is, how long it is or how it is observed, and not how fast its steps
/// are.
bool is_aside(std::string_view key) {
  static constexpr std::array kKeys = {"trainer.devices",   "trainer.share_device", "trainer.max_epochs",
                                       "trainer.max_steps", "trainer.max_time",     "trainer.seed"};
  return key.starts_with("cluster.") || key.starts_with("observe.") || std::ranges::find(kKeys, key) != kKeys.end();
}

/// Returns a recipe's settings for the training itself.
Settings told_apart(const Settings& settings) {
  Settings kept;
  for (const auto& [key, value] : settings) {
    if (is_aside(key)) continue;
    if (key == kStrategy && !is_dp(settings)) continue;
    kept.emplace(key, value);
  }
  return kept;
}

/// A run that has made at least one step.
struct Entry {
  const RunReport* report = nullptr;
  RunFigures run{};
  Settings settings{};

  int devices() const {
    const auto it = report->settings.find("trainer.devices");
    const auto count = it == report->settings.end() ? std::nullopt : parsed_int<int>(it->second);
    return is_dp(report->settings) && count ? *count : run.ranks;
  }
  const TrainingReport& training() const { return *report->training; }
};

std::set<std::string> keys_that_differ(const Settings& a, const Settings& b) {
  std::set<std::string> keys;
  const auto value = [](const Settings& in, const std::string& key) {
    const auto it = in.find(key);
    return it == in.end() ? std::string() : it->second;
  };
  for (const auto* settings : {&a, &b}) {
    for (const auto& [key, ignored] : *settings) {
      if (value(a, key) != value(b, key)) keys.insert(key);
    }
  }
  return keys;
}

std::string unquoted(const std::string& toml) {
  const bool is_text = toml.size() >= 2 && toml.front() == '"' && toml.back() == '"';
  return is_text ? toml.substr(1, toml.size() - 2) : toml;
}

std::string label_of(const Settings& settings, const std::set<std::string>& keys) {
  std::vector<std::string> parts;
  for (const auto& key : keys) {
    const auto it = settings.find(key);
    if (it != settings.end()) parts.push_back(key + "=" + unquoted(it->second));
  }
  return joined(parts, " ");
}

/// True if the run has made steps in a time that could be measured.
bool is_comparable(const RunReport& report) { return report.training && report.training->figures.epoch_s > 0; }

std::vector<Entry> entries_of(const std::vector<RunReport>& reports) {
  std::vector<Entry> entries;
  for (const auto& report : reports) {
    if (is_comparable(report)) entries.push_back({&report, report.training->figures, told_apart(report.settings)});
  }
  const auto known = std::ranges::find_if(entries, [](const auto& each) { return !each.settings.empty(); });
  if (known == entries.end()) return entries;
  std::set<std::string> keys;
  for (const auto& entry : entries) {
    if (!entry.settings.empty()) keys.merge(keys_that_differ(known->settings, entry.settings));
  }
  for (auto& entry : entries) {
    // Without a recipe it is unknown whether a run is like the others.
    entry.run.label = entry.settings.empty() ? entry.report->name : label_of(entry.settings, keys);
  }
  return entries;
}

std::string of_label(const Entry& entry) { return entry.run.label.empty() ? "" : " (" + entry.run.label + ")"; }

/// Describes the cost of averaging between ranks, by comparing one rank with several.
std::string overhead_words(const Entry& one, const Entry& many) {
  const auto begin = "DDP on " + std::to_string(many.run.ranks) + " ranks" + of_label(many) + ": ";
  const auto step_s = seconds_text(many.run.step_s);
  if (one.run.batch == many.run.batch) {
    const double more_s = many.run.step_s - one.run.step_s;
    return begin + "with the same batch of " + fixed(one.run.batch, 0) + " for each rank a step takes " + step_s +
           " where one rank's takes " + seconds_text(one.run.step_s) + ": averaging gradients and waiting cost " +
           (more_s <= 0 ? "nothing that can be seen."
                        : seconds_text(more_s) + " a step (" + percent_text(more_s / one.run.step_s) + ").");
  }
  const double even_s = one.run.step_s * many.run.batch / std::max(1.0, one.run.batch);
  const double over_s = many.run.step_s - even_s;
  return begin + "a step of " + std::to_string(many.run.global_batch) + " samples takes " + step_s +
         ", on one rank one of " + std::to_string(one.run.global_batch) + " takes " + seconds_text(one.run.step_s) +
         "; for a rank's " + fixed(many.run.batch, 0) + " samples an even share of that would be " +
         seconds_text(even_s) + ", so " +
         (over_s <= 0 ? "nothing is lost."
                      : seconds_text(over_s) + " a step (" + percent_text(over_s / many.run.step_s) +
                            ") go to averaging gradients, waiting and the smaller batch.");
}

std::string iterations_words(const Entry& one, const Entry& many) {
  const auto steps = [](const Entry& of) { return of.training().steps_per_epoch; };
  if (steps(one) == steps(many)) {
    return "An epoch has the same " + std::to_string(steps(one)) + " steps on " + counted(many.run.ranks, "rank") +
           " as on " + std::to_string(one.run.ranks) + ": the global batch of " + std::to_string(one.run.global_batch) +
           " is shared out, " + fixed(many.run.batch, 0) + " samples to each against " + fixed(one.run.batch, 0) + ".";
  }
  return "An epoch has " + std::to_string(steps(many)) + " steps on " + counted(many.run.ranks, "rank") + " and " +
         std::to_string(steps(one)) + " on " + std::to_string(one.run.ranks) +
         ": each step takes the batch of every rank, " + std::to_string(many.run.global_batch) + " samples against " +
         std::to_string(one.run.global_batch) + ".";
}

std::string dp_words(const Entry& dp, const Entry& ddp) {
  const auto devices = counted(dp.devices(), "device");
  const double more_s = dp.run.epoch_s - ddp.run.epoch_s;
  return "DP on " + devices + ": an epoch takes " + seconds_text(dp.run.epoch_s) + ", with DDP on " +
         counted(ddp.run.ranks, "rank") + " " + seconds_text(ddp.run.epoch_s) + ": " + seconds_text(std::abs(more_s)) +
         " (" + percent_text(std::abs(more_s) / ddp.run.epoch_s) + (more_s < 0 ? ") less" : ") more") + " (" +
         fixed(dp.run.samples_per_second, 0) + " against " + fixed(ddp.run.samples_per_second, 0) +
         " samples/s). In DP one process copies the model to each device at every step and gathers gradients on one of "
         "them.";
}

std::string model_words(const Entry& a, const Entry& b) {
  const double time = a.run.epoch_s / b.run.epoch_s;
  std::string text = b.run.label + " takes " + seconds_text(b.run.epoch_s) + " an epoch, " + a.run.label + " " +
                     seconds_text(a.run.epoch_s) + ": " + times_text(time) + " as fast";
  const auto parameters = [](const Entry& of) { return static_cast<double>(of.training().parameters); };
  if (parameters(a) > 0 && parameters(b) > 0) {
    text += ", with " + count_text(b.training().parameters) + " parameters against " +
            count_text(a.training().parameters) + ": by their number alone it would be " +
            times_text(parameters(a) / parameters(b));
  }
  return text + ".";
}

std::uint64_t device_peak(const RunReport& report) {
  std::uint64_t peak = 0;
  for (const auto& node : report.telemetry.nodes) {
    for (const auto& device : node.devices) peak = std::max(peak, device.memory_peak_bytes.value_or(0));
  }
  return peak == 0 && report.training ? static_cast<std::uint64_t>(report.training->device_peak_bytes) : peak;
}

std::string batch_words(const Entry& small, const Entry& large) {
  std::string text = "A batch of " + fixed(large.run.batch, 0) + " for each rank trains " +
                     fixed(large.run.samples_per_second, 0) + " samples/s, one of " + fixed(small.run.batch, 0) + " " +
                     fixed(small.run.samples_per_second, 0) + ": " +
                     times_text(large.run.samples_per_second / small.run.samples_per_second) + " as fast";
  const auto before = device_peak(*small.report);
  const auto after = device_peak(*large.report);
  if (before > 0 && after > 0) {
    text += ", with " + human_bytes(after) + " of a device's memory against " + human_bytes(before);
  }
  return text + ".";
}

std::string other_words(const Entry& a, const Entry& b) {
  return b.run.label + " trains " + fixed(b.run.samples_per_second, 0) + " samples/s, " + a.run.label + " " +
         fixed(a.run.samples_per_second, 0) + ": " + times_text(b.run.samples_per_second / a.run.samples_per_second) +
         " as fast.";
}

/// Compares two runs with the same number of ranks, and names the settings in which their recipes differ. Empty if the
/// recipes are the same.
std::string difference_words(const Entry& a, const Entry& b) {
  const auto keys = keys_that_differ(a.settings, b.settings);
  if (keys.empty() || a.settings.empty() || b.settings.empty()) return {};
  const auto all = [&](auto is_one) { return std::ranges::all_of(keys, is_one); };
  if (all([](const auto& key) { return key.starts_with("model."); })) return model_words(a, b);
  if (all([](const auto& key) { return key == "data.batch" || key == "data.global_batch"; })) {
    return a.run.batch <= b.run.batch ? batch_words(a, b) : batch_words(b, a);
  }
  return other_words(a, b);
}

void add_words(const std::vector<Entry>& entries, std::vector<std::string>& sentences) {
  std::map<std::string, const Entry*> firsts;  // Of each label, that with the fewest ranks.
  std::map<int, const Entry*> references;      // By ranks, the first one given.
  for (const auto& entry : entries) {
    auto& first = firsts[entry.run.label];
    if (first == nullptr || entry.run.ranks < first->run.ranks) first = &entry;
  }
  const auto say = [&sentences](const std::string& words) {
    const bool is_said = std::ranges::find(sentences, words) != sentences.end();
    if (!words.empty() && !is_said) sentences.push_back(words);
  };
  for (const auto& entry : entries) {
    const auto& first = *firsts.at(entry.run.label);
    if (entry.run.ranks > first.run.ranks) {
      say(iterations_words(first, entry));
      if (first.run.ranks == 1) say(overhead_words(first, entry));
    }
    if (is_dp(entry.report->settings)) {
      const auto ddp = std::ranges::find_if(entries, [&](const Entry& other) {
        const auto keys = keys_that_differ(entry.settings, other.settings);
        return other.run.ranks > 1 && other.run.ranks == entry.devices() && keys == std::set{std::string(kStrategy)};
      });
      if (ddp != entries.end()) say(dp_words(entry, *ddp));
      continue;
    }
    const auto reference = references.try_emplace(entry.run.ranks, &entry).first->second;
    say(difference_words(*reference, entry));
  }
}

/// Returns the figures of programs that ended well: the time that each took. If their commands differ, these are the
/// labels.
std::vector<RunFigures> program_runs(const std::vector<RunReport>& reports) {
  std::set<std::string> commands;
  std::vector<RunFigures> runs;
  for (const auto& report : reports) {
    if (report.training || report.state != RunState::kEnded || report.alive_s <= 0) continue;
    RunFigures run{.path = report.path, .nodes = report.nodes, .ranks = std::max(1, report.tasks)};
    if (report.job) run.label = report.job->command;
    run.run_s = report.alive_s;
    run.energy_joules = report.energy_joules();
    run.billing = report.billing();
    commands.insert(run.label);
    runs.push_back(program_figures(std::move(run)));
  }
  if (commands.size() > 1) return runs;
  for (auto& run : runs) run.label.clear();
  return runs;
}

}  // namespace

RunComparison compared(const std::vector<RunReport>& reports) {
  RunComparison comparison;
  const auto entries = entries_of(reports);
  std::vector<RunFigures> runs;
  runs.reserve(entries.size());
  for (const auto& entry : entries) runs.push_back(entry.run);
  if (runs.empty()) runs = program_runs(reports);
  comparison.rows = scaling_rows(std::move(runs));
  add_words(entries, comparison.sentences);
  for (const auto& report : reports) {
    const bool is_row = std::ranges::any_of(
        comparison.rows, [&report](const auto& row) { return row.run.is_program && row.run.path == report.path; });
    if (is_comparable(report) || is_row) continue;
    comparison.sentences.push_back("'" + report.name + "' has no steps to compare: it is not in the table.");
  }
  return comparison;
}

}  // namespace lockstep
