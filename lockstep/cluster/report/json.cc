// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/cluster/report/asked_and_used.h"
#include "lockstep/cluster/report/page.h"
#include "lockstep/cluster/report/verdict.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// A number that is not finite becomes null. So does a 0 that means unknown.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
template <typename Value>
Json unless_0(Value value) {
  return value == 0 ? Json(nullptr) : Json(value);
}
Json unless_empty(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

template <typename Value>
Json object_of(const std::map<std::string, Value>& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) object[key] = value;
  return object;
}

Json phases_json(const PhaseSeconds& phases) {
  Json object;
  for (std::size_t i = 0; i < kEpochPhases.size(); ++i) object[std::string(kEpochPhases.at(i))] = number(phases.at(i));
  return object;
}

Json job_json(const std::optional<JobRecord>& job) {
  if (!job) return nullptr;
  return {{"job", job->job}, {"cluster", job->cluster}, {"command", job->command}, {"time_s", job->time_s}};
}

Json first_epoch_json(const std::optional<FirstEpoch>& first) {
  if (!first) return nullptr;
  return {{"seconds", first->seconds},
          {"later_s", first->later_s},
          {"slowest_later_s", first->slowest_later_s},
          {"more_s", phases_json(first->more_s)},
          {"first_steps", unless_0(first->first_steps)},
          {"first_steps_more_s", first->first_steps == 0 ? Json(nullptr) : Json(first->first_steps_more_s)}};
}

Json step_json(const std::optional<StepSpread>& spread) {
  if (!spread) return nullptr;
  return {{"median_s", spread->median_s},
          {"fastest_s", spread->fastest_s},
          {"slowest_s", spread->slowest_s},
          {"slowest_at", spread->slowest_at},
          {"lines", spread->lines}};
}

Json snapshot_json(const std::optional<KeptSnapshot>& kept) {
  if (!kept) return nullptr;
  return {
      {"name", kept->name}, {"step", kept->step}, {"is_best", kept->is_best}, {"metrics", object_of(kept->metrics)}};
}

Json training_json(const std::optional<TrainingReport>& training) {
  if (!training) return nullptr;
  const auto& run = training->figures;
  auto epochs = Json::array();
  for (const auto& each : training->epochs) {
    epochs.push_back({{"epoch", each.epoch},
                      {"steps", each.steps},
                      {"is_whole", each.is_whole},
                      {"seconds", each.seconds},
                      {"phases_s", phases_json(each.phases_s)}});
  }
  return {{"epochs_done", training->epochs_done},
          {"epochs_planned", unless_0(training->epochs_planned)},
          {"steps_done", training->steps_done},
          {"steps_planned", unless_0(training->steps_planned)},
          {"steps_per_epoch", unless_0(training->steps_per_epoch)},
          {"ranks", run.ranks},
          {"batch", run.batch},
          {"global_batch", run.global_batch},
          {"parameters", unless_0(training->parameters)},
          {"samples_per_second", number(run.samples_per_second)},
          {"step_s", number(run.step_s)},
          {"epoch_s", number(run.epoch_s)},
          {"phases_s", phases_json(run.phases_s)},
          {"time_to_first_step_s", or_null(training->time_to_first_step_s)},
          {"step", step_json(training->step_spread)},
          {"first_epoch", first_epoch_json(training->first_epoch)},
          {"metrics", object_of(training->metrics)},
          {"snapshot", snapshot_json(training->snapshot)},
          {"device_peak_bytes", unless_0(training->device_peak_bytes)},
          {"epochs", epochs}};
}

Json device_json(const DeviceSummary& device) {
  const bool has_power = device.power_watts.count > 0;
  return {{"pci", device.pci},
          {"busy_percent_mean", or_null(device.busy_percent.mean())},
          {"busy_percent_max", or_null(device.busy_percent.peak())},
          {"power_watts_mean", or_null(device.power_watts.mean())},
          {"power_watts_max", or_null(device.power_watts.peak())},
          {"energy_kwh", has_power ? Json(device.energy_joules / 3.6e6) : Json(nullptr)},
          {"temperature_celsius_max", or_null(device.temperature_celsius.peak())},
          {"memory_peak_bytes", or_null(device.memory_peak_bytes)},
          {"memory_total_bytes", unless_0(device.memory_total_bytes)}};
}

Json node_json(const NodeSummary& node) {
  auto devices = Json::array();
  for (const auto& each : node.devices) devices.push_back(device_json(each));
  return {{"node", node.node},
          {"tasks", node.tasks},
          {"alive_s", node.alive_s},
          {"samples", node.samples},
          {"cores_mean", or_null(node.mean_cores())},
          {"cores_max", or_null(node.cores.peak())},
          {"share_waiting", node.samples > 0 ? Json(node.share_waiting) : Json(nullptr)},
          {"memory_peak_bytes", node.memory_peak_bytes},
          {"task_memory_peak_bytes", node.task_memory_peak_bytes},
          {"memory_total_bytes", unless_0(node.memory_total_bytes)},
          {"read_bytes", node.read_bytes},
          {"written_bytes", node.written_bytes},
          {"devices", devices}};
}

Json asked_json(const RunReport& report) {
  const auto lines = asked_and_used(report);
  if (lines.empty()) return nullptr;
  Json object = Json::object();
  for (const auto& each : lines)
    object[each.what] = {{"asked", each.asked}, {"used", each.used}, {"next", unless_empty(each.next)}};
  object["next_command"] = unless_empty(next_command(report, lines));
  return object;
}

Json end_json(const RunReport& report) {
  if (!report.end) return nullptr;
  Json first = nullptr;
  if (report.first_exit) {
    const auto& rank = report.first_exit->rank;
    first = {{"rank", rank.rank}, {"node", rank.node},
             {"code", rank.code}, {"signal", unless_0(rank.signal)},
             {"time", rank.time}, {"ahead_s", or_null(report.first_exit->ahead_s)},
             {"last", rank.last}, {"launched", nullptr}};
    if (rank.launched) {
      first["launched"] = {
          {"launcher", rank.launched->launcher}, {"rank", rank.launched->rank}, {"code", rank.launched->code}};
    }
  }
  return {{"state", report.end->state}, {"exit_code", report.end->code}, {"first", first}};
}

Json run_json(const RunReport& report, const std::string& tunnel) {
  const auto verdict = verdict_of(report);
  auto nodes = Json::array();
  auto findings = Json::array();
  double joules = 0;
  std::int64_t with_power = 0;
  for (const auto& node : report.telemetry.nodes) {
    nodes.push_back(node_json(node));
    joules += node.energy_joules();
    with_power += node.devices_with_power();
    for (const auto& each : node.findings) {
      findings.push_back({{"code", each.code},
                          {"node", each.node},
                          {"time", each.since},
                          {"seconds", each.over ? Json(*each.over - each.since) : Json(nullptr)},
                          {"text", each.fact()},
                          {"hint", unless_empty(each.hint())}});
    }
  }
  return {{"run_dir", std::filesystem::absolute(report.path).string()},
          {"name", report.name},
          {"state", name_of(report.state)},
          {"verdict", {{"limit", verdict.limit}, {"text", verdict.text}, {"hint", unless_empty(verdict.hint)}}},
          {"job", job_json(report.job)},
          {"end", end_json(report)},
          {"nodes", report.nodes},
          {"sizes", report.sizes.empty() ? Json(nullptr) : Json(report.sizes)},
          {"tasks", unless_0(report.tasks)},
          {"started", or_null(report.started)},
          {"last", or_null(report.last)},
          {"wall_s", report.alive_s},
          {"node_hours", report.node_hours()},
          {"billed", {{"unit", report.billing().unit}, {"hours", report.billed_hours()}}},
          {"starts", report.starts},
          {"stopped_by", unless_empty(report.stopped_by)},
          {"facts", object_of(report.facts)},
          {"training", training_json(report.training)},
          {"telemetry", nodes},
          {"energy_kwh", with_power > 0 ? Json(joules / 3.6e6) : Json(nullptr)},
          {"kwh_per_sample", or_null(report.kwh_per_sample())},
          {"devices_with_power", with_power},
          {"asked", asked_json(report)},
          {"findings", findings},
          {"tunnel", unless_empty(tunnel)}};
}

}  // namespace

Json report_json(const ReportPage& page) {
  auto runs = Json::array();
  for (std::size_t i = 0; i < page.runs.size(); ++i) runs.push_back(run_json(page.runs[i], page.tunnels[i]));
  Json scaling = nullptr;
  if (!page.comparison.rows.empty()) scaling = scaling_json(page.comparison.rows);
  auto sentences = Json::array();
  for (const auto& each : page.comparison.sentences) sentences.push_back(each);
  Json sweep = nullptr;
  if (page.sweep) {
    sweep = sweep_json(*page.sweep);
    for (const auto& each : sweep_sentences(*page.sweep)) sentences.push_back(each);
  }
  return {{"schema", 1}, {"runs", runs}, {"scaling", scaling}, {"sweep", sweep}, {"sentences", sentences}};
}

}  // namespace lockstep
