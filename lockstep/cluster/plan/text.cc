// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/text.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/base/text_table.h"
#include "lockstep/base/unit_column.h"

namespace lockstep {
namespace {

std::string bytes_text(double bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

std::string basis_name(PlanBasis basis) {
  switch (basis) {
    case PlanBasis::kMeasuredHere:
      return "measured here";
    case PlanBasis::kMeasuredThere:
      return "measured there";
    case PlanBasis::kPublished:
      return "published";
    case PlanBasis::kDataSheet:
      return "data sheet";
  }
  return {};
}

std::string percent(double share) { return fixed(share * 100, 0) + " %"; }

/// "within 12 %".
std::string human_error(const std::optional<double>& error) {
  return error ? "within " + percent(*error) : "order of magnitude";
}

std::string memory_text(const PlanQuestion& question, const PlanPoint& point) {
  const auto& memory = point.memory;
  std::string text = bytes_text(memory.total()) + " of a device with a batch of " + fixed(point.batch, 0) +
                     ": weights " + bytes_text(memory.weights) + ", gradients " + bytes_text(memory.gradients) +
                     ", optimizer " + bytes_text(memory.optimizer) + ", buffers " + bytes_text(memory.buffers) +
                     ", activations " + bytes_text(memory.activations);
  const double room = question.machine.device_memory_bytes;
  if (room > 0)
    text += memory.total() > room ? " — MORE than its " + bytes_text(room) : " (it has " + bytes_text(room) + ")";
  if (const auto largest = largest_batch(question)) {
    text += *largest == 0                              ? "; not even one sample fits"
            : *largest >= question.facts.train_samples ? "; any batch fits"
                                                       : "; up to " + std::to_string(*largest) + " fit";
  }
  return text;
}

nlohmann::ordered_json json_of(const PlanPoint& point) {
  return {{"nodes", point.at.nodes},
          {"ranks", point.at.ranks()},
          {"batch", point.batch},
          {"global_batch", point.global_batch},
          {"steps_per_epoch", point.steps_per_epoch},
          {"memory_bytes",
           {{"weights", point.memory.weights},
            {"gradients", point.memory.gradients},
            {"optimizer", point.memory.optimizer},
            {"buffers", point.memory.buffers},
            {"activations", point.memory.activations},
            {"total", point.memory.total()}}},
          {"step_s", point.step.seconds},
          {"compute_s", point.step.compute_s},
          {"all_reduce_s", point.step.reduce_s},
          {"exposed_s", point.step.exposed_s},
          {"waiting_s", point.step.waiting_s},
          {"data_s", point.step.data_s},
          {"launch_s", point.launch_s},
          {"epoch_s", point.epoch_s},
          {"run_s", point.run_s},
          {"node_hours", point.node_hours},
          {"billed_hours", point.billed_hours},
          {"speed_up", point.speed_up},
          {"efficiency", point.efficiency},
          {"limit", point.limit},
          {"error", point.error ? nlohmann::ordered_json(*point.error) : nlohmann::ordered_json(nullptr)}};
}

/// Returns a line such as "budget: 750 GPU-hours are left of project_1's 1000; 8 nodes cost more".
std::string budget_text(const AccountBudget& budget, const PlanMachine& machine, const std::vector<PlanPoint>& points) {
  std::string text = "budget: " + fixed(budget.left(), 0) + " " + machine.billing.unit + " are left of " +
                     machine.account + "'s " + fixed(budget.granted, 0) + " (sshare)";
  std::vector<std::string> beyond;
  for (const auto& point : points) {
    if (point.billed_hours > budget.left()) beyond.push_back(counted(point.at.nodes, "node"));
  }
  return beyond.empty() ? text : text + "; it does not pay the run on " + joined(beyond, ", ");
}

TableRows plan_table(const PlanQuestion& question, const std::vector<PlanPoint>& points) {
  std::vector<TableColumn> sizes = {{"nodes"}, {"ranks"}, {"batch"}, {"steps/epoch"}};
  std::vector<TableColumn> ends = {{"speed-up"}, {"efficiency"}, {"limit"}, {"sure"}};
  ColumnValues steps;
  ColumnValues epochs;
  ColumnValues runs;
  ColumnValues billed;
  for (const auto& point : points) {
    sizes[0].push_back(std::to_string(point.at.nodes));
    sizes[1].push_back(std::to_string(point.at.ranks()));
    sizes[2].push_back(fixed(point.batch, 0));
    sizes[3].push_back(std::to_string(point.steps_per_epoch));
    steps.emplace_back(point.step.seconds);
    epochs.emplace_back(point.epoch_s);
    runs.emplace_back(point.run_s);
    billed.emplace_back(point.billed_hours);
    ends[0].push_back(fixed(point.speed_up, 2));
    ends[1].push_back(percent(point.efficiency));
    ends[2].push_back(point.limit);
    ends[3].push_back(human_error(point.error));
  }
  auto columns = std::move(sizes);
  columns.push_back(time_column("step", steps));
  columns.push_back(time_column("epoch", epochs));
  columns.push_back(time_column("run", runs));
  columns.push_back(number_column(question.machine.billing.unit, billed));
  columns.insert(columns.end(), ends.begin(), ends.end());
  return rows_of_columns(columns);
}

}  // namespace

std::string plan_text(const PlanQuestion& question, const std::vector<PlanPoint>& points) {
  const auto& facts = question.facts;
  std::string text = facts.model + " on " + question.machine.cluster + ", " + counted(question.machine.ranks, "rank") +
                     " a node, " + facts.precision + "\n";
  text += "parameters  " + std::to_string(facts.parameters) + " in " + std::to_string(facts.gradients.size()) +
          " tensors\n";
  text += "snapshot    " + bytes_text(snapshot_bytes(facts)) + "\n";
  text += "memory      " + memory_text(question, points.front()) + "\n";
  text += "data        " + std::to_string(facts.train_samples) + " samples to train on, " +
          std::to_string(facts.validation_samples) + " for validation\n\n";
  text += text_table(plan_table(question, points)) + "\n";
  if (const auto& budget = question.machine.budget) text += budget_text(*budget, question.machine, points) + "\n";
  for (const auto& source : question.machine.sources) text += source + "\n";
  for (const auto& hint : question.machine.hints) text += "hint: " + hint + "\n";
  return text;
}

nlohmann::ordered_json plan_json(const PlanQuestion& question, const std::vector<PlanPoint>& points) {
  const auto& facts = question.facts;
  auto list = nlohmann::ordered_json::array();
  for (const auto& point : points) list.push_back(json_of(point));
  const auto largest = largest_batch(question);
  const auto& budget = question.machine.budget;
  return {{"schema", 1},
          {"model", facts.model},
          {"cluster", question.machine.cluster},
          {"precision", facts.precision},
          {"parameters", facts.parameters},
          {"snapshot_bytes", snapshot_bytes(facts)},
          {"train_samples", facts.train_samples},
          {"validation_samples", facts.validation_samples},
          {"billing_unit", question.machine.billing.unit},
          {"budget", budget ? nlohmann::ordered_json{{"account", question.machine.account},
                                                     {"granted", budget->granted},
                                                     {"left", budget->left()}}
                            : nlohmann::ordered_json(nullptr)},
          {"basis", basis_name(question.machine.basis)},
          {"largest_batch", largest ? nlohmann::ordered_json(*largest) : nlohmann::ordered_json(nullptr)},
          {"sources", question.machine.sources},
          {"hints", question.machine.hints},
          {"points", list}};
}

}  // namespace lockstep
