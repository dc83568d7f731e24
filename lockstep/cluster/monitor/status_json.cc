// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/status_json.h"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using nlohmann::json;

template <typename Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json(nullptr);
}

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

/// 0 means unknown.
template <typename Number>
json number_or_null(Number number) {
  return number == 0 ? json(nullptr) : json(number);
}

json json_of(const TaskStatus& task) {
  return {{"rank", task.rank},
          {"local_rank", task.local_rank},
          {"pid", task.pid},
          {"state", std::string(1, task.state)},
          {"cores", or_null(task.cores)},
          {"memory_bytes", task.memory_bytes},
          {"processes", task.processes},
          {"threads", task.threads}};
}

json json_of(const DeviceSample& device) {
  return {{"pci", device.pci},
          {"busy_percent", or_null(device.busy_percent)},
          {"power_watts", or_null(device.power_watts)},
          {"temperature_celsius", or_null(device.temperature_celsius)},
          {"memory_used_bytes", or_null(device.memory_used_bytes)},
          {"memory_total_bytes", or_null(device.memory_total_bytes)}};
}

json json_of(const NodeStatus& node) {
  json object = {{"node", node.node},
                 {"age_s", or_null(node.age_s)},
                 {"is_silent", node.is_silent},
                 {"has_ended", node.has_ended},
                 {"local_world", number_or_null(node.local_world)},
                 {"cores", or_null(node.cores())},
                 {"tasks_memory_bytes", node.tasks_memory_bytes()},
                 {"memory_total_bytes", number_or_null(node.memory.total_bytes)},
                 {"memory_available_bytes", number_or_null(node.memory.available_bytes)},
                 {"read_bytes_per_s", or_null(node.read_bytes_per_s)},
                 {"written_bytes_per_s", or_null(node.written_bytes_per_s)},
                 {"tasks", json::array()},
                 {"devices", json::array()}};
  for (const auto& task : node.tasks) object["tasks"].push_back(json_of(task));
  for (const auto& device : node.devices) object["devices"].push_back(json_of(device));
  return object;
}

json json_of(const TrainingStatus& training) {
  return {{"step", training.step},
          {"steps_total", number_or_null(training.steps_total)},
          {"epoch", or_null(training.epoch)},
          {"epochs", number_or_null(training.epochs)},
          {"loss", or_null(training.loss)},
          {"samples_per_second", or_null(training.samples_per_second)},
          {"seconds_left", or_null(training.seconds_left)},
          {"validation", training.validation},
          {"has_ended", training.has_ended},
          {"stopped_by", text_or_null(training.stopped_by)}};
}

}  // namespace

json json_of(const RunStatus& status) {
  json object = {{"schema", 1},
                 {"run_dir", text_or_null(status.run_dir.string())},
                 {"job", text_or_null(status.job)},
                 {"state", text_or_null(status.state)},
                 {"nodes", json::array()},
                 {"training", nullptr},
                 {"findings", json::array()},
                 {"odd_rank", nullptr},
                 {"note", text_or_null(status.note)}};
  for (const auto& node : status.node_list) object["nodes"].push_back(json_of(node));
  if (status.training) object["training"] = json_of(*status.training);
  for (const auto& each : status.findings) {
    object["findings"].push_back(
        {{"node", each.node}, {"code", text_or_null(each.code)}, {"text", each.text}, {"since", each.since}});
  }
  if (const auto& odd = status.odd_rank) {
    object["odd_rank"] = {{"rank", odd->rank}, {"node", odd->node}, {"how", odd->how}};
  }
  return object;
}

}  // namespace lockstep
