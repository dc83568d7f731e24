// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/sweep_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/report/numbers.h"

namespace lockstep {
namespace {

constexpr const char* kLoss = "val_loss";

/// Splits a text such as "optimizer.lr=0.1" into name and value.
std::pair<std::string, std::string> parts_of(const std::string& set) {
  const auto equals = set.find('=');
  return {set.substr(0, equals), equals == std::string::npos ? "" : set.substr(equals + 1)};
}

std::map<std::string, double> metrics_of(const std::optional<RunReport>& run) {
  return run && run->training ? run->training->metrics : std::map<std::string, double>{};
}

std::string state_of(const std::optional<RunReport>& run) {
  if (!run) return "not there";
  if (run->end && run->state == RunState::kFailed) return run->end->state + " (" + std::to_string(run->end->code) + ")";
  return std::string(name_of(run->state));
}

std::vector<std::string> metric_names(const SweepReport& sweep) {
  std::set<std::string> names;
  for (const auto& run : sweep.runs) {
    for (const auto& [name, value] : metrics_of(run)) names.insert(name);
  }
  return {names.begin(), names.end()};
}

}  // namespace

TableRows sweep_table(const SweepReport& sweep) {
  const auto metrics = metric_names(sweep);
  std::vector<std::string> head{"trial"};
  if (!sweep.trials.empty()) {
    for (const auto& set : sweep.trials.front().sets) head.push_back(parts_of(set).first);
  }
  head.insert(head.end(), {"state", "time (s)"});
  head.insert(head.end(), metrics.begin(), metrics.end());
  TableRows rows{head};
  for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
    const auto& run = sweep.runs[i];
    std::vector<std::string> row{sweep.trials[i].name};
    for (const auto& set : sweep.trials[i].sets) row.push_back(parts_of(set).second);
    row.push_back(state_of(run));
    row.push_back(run && run->alive_s > 0 ? fixed(run->alive_s, 1) : "-");
    const auto own = metrics_of(run);
    for (const auto& name : metrics) {
      const auto it = own.find(name);
      row.push_back(number_text(it == own.end() ? std::nullopt : std::optional(it->second)));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> sweep_sentences(const SweepReport& sweep) {
  std::map<std::string, int> states;
  std::vector<std::pair<double, std::string>> losses;
  for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
    ++states[sweep.runs[i] ? std::string(name_of(sweep.runs[i]->state)) : "not there"];
    const auto metrics = metrics_of(sweep.runs[i]);
    if (const auto it = metrics.find(kLoss); it != metrics.end()) losses.emplace_back(it->second, sweep.trials[i].name);
  }
  const auto counts = map_each(states, [](const auto& each) { return std::to_string(each.second) + " " + each.first; });
  std::vector<std::string> sentences{counted(std::ssize(sweep.trials), "trial") + ": " + joined(counts, ", ") + "."};
  if (losses.size() < 2) return sentences;
  const auto best = std::ranges::min(losses);
  sentences.push_back("The lowest last " + std::string(kLoss) + " is " + number_text(best.first) + ", of " +
                      best.second + ".");
  return sentences;
}

nlohmann::json sweep_json(const SweepReport& sweep) {
  auto list = nlohmann::json::array();
  for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
    const auto& run = sweep.runs[i];
    auto sets = nlohmann::json::object();
    for (const auto& set : sweep.trials[i].sets) {
      const auto [name, value] = parts_of(set);
      sets[name] = value;
    }
    nlohmann::json row = {{"name", sweep.trials[i].name}, {"sets", sets},      {"run_dir", nullptr}, {"state", nullptr},
                          {"exit_code", nullptr},         {"wall_s", nullptr}, {"metrics", nullptr}};
    if (run) {
      row["run_dir"] = std::filesystem::absolute(run->path).string();
      row["state"] = name_of(run->state);
      row["wall_s"] = run->alive_s;
      if (run->end) row["exit_code"] = run->end->code;
      if (run->training) row["metrics"] = run->training->metrics;
    }
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace lockstep
