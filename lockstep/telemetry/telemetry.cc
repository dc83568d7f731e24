// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/telemetry.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "lockstep/base/error.h"
#include "lockstep/base/json_text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

template <typename Number>
json or_null(const std::optional<Number>& value) {
  return value ? json(*value) : json(nullptr);
}

json json_of(const TaskSample& at) {
  return {{"rank", at.task.rank},
          {"local_rank", at.task.local_rank},
          {"pid", at.task.pid},
          {"state", std::string(1, at.used.state)},
          {"cpu_seconds", at.used.cpu_seconds},
          {"memory_bytes", at.used.memory_bytes},
          {"read_bytes", at.used.read_bytes},
          {"written_bytes", at.used.written_bytes},
          {"processes", at.used.processes},
          {"threads", at.used.threads}};
}

json json_of(const DeviceSample& at) {
  return {{"pci", at.pci},
          {"busy_percent", or_null(at.busy_percent)},
          {"power_watts", or_null(at.power_watts)},
          {"temperature_celsius", or_null(at.temperature_celsius)},
          {"memory_used_bytes", or_null(at.memory_used_bytes)},
          {"memory_total_bytes", or_null(at.memory_total_bytes)}};
}

template <typename Sample>
json list_of_json(const std::vector<Sample>& samples) {
  json list = json::array();
  for (const auto& each : samples) list.push_back(json_of(each));
  return list;
}

/// Takes `value` if it is present and of the right kind, and returns true if so. A damaged line must not end the
/// program that reads a run.
template <typename Value>
bool take(const json& object, const char* key, Value& value) {
  const auto it = object.find(key);
  if (it == object.end()) return false;
  if constexpr (std::is_same_v<Value, std::string>) {
    if (!it->is_string()) return false;
  } else if constexpr (std::is_integral_v<Value>) {
    if (!it->is_number_integer()) return false;
  } else {
    if (!it->is_number()) return false;
  }
  value = it->template get<Value>();
  return true;
}

template <typename Number>
void take(const json& object, const char* key, std::optional<Number>& value) {
  Number number{};
  if (take(object, key, number)) value = number;
}

TaskSample task_of(const json& object) {
  TaskSample at;
  take(object, "rank", at.task.rank);
  take(object, "local_rank", at.task.local_rank);
  take(object, "pid", at.task.pid);
  std::string state;
  take(object, "state", state);
  if (!state.empty()) at.used.state = state.front();
  take(object, "cpu_seconds", at.used.cpu_seconds);
  take(object, "memory_bytes", at.used.memory_bytes);
  take(object, "read_bytes", at.used.read_bytes);
  take(object, "written_bytes", at.used.written_bytes);
  take(object, "processes", at.used.processes);
  take(object, "threads", at.used.threads);
  return at;
}

DeviceSample device_of(const json& object) {
  DeviceSample at;
  take(object, "pci", at.pci);
  take(object, "busy_percent", at.busy_percent);
  take(object, "power_watts", at.power_watts);
  take(object, "temperature_celsius", at.temperature_celsius);
  take(object, "memory_used_bytes", at.memory_used_bytes);
  take(object, "memory_total_bytes", at.memory_total_bytes);
  return at;
}

NodeSample sample_of(const json& object) {
  NodeSample sample;
  take(object, "time", sample.time);
  for (const auto& each : object.value("tasks", json::array())) {
    if (each.is_object()) sample.tasks.push_back(task_of(each));
  }
  take(object, "memory_total_bytes", sample.memory.total_bytes);
  take(object, "memory_available_bytes", sample.memory.available_bytes);
  for (const auto& each : object.value("devices", json::array())) {
    if (each.is_object()) sample.devices.push_back(device_of(each));
  }
  return sample;
}

}  // namespace

TelemetryFile::TelemetryFile(const std::filesystem::path& path, std::string node)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)), node_(std::move(node)) {
  if (!file_) throw io_error("open", path, errno);
}

void TelemetryFile::write_start(double time, double period_s, int local_world) {
  append(json({{"event", "agent_started"},
               {"time", time},
               {"node", node_},
               {"period_s", period_s},
               {"local_world", local_world}})
             .dump());
}

void TelemetryFile::write_sample(const NodeSample& sample) { append(json_of_sample(sample, node_)); }

void TelemetryFile::write_warning(double time, const std::string& code, const std::string& text) {
  append(json_text(json({{"event", "warning"}, {"time", time}, {"node", node_}, {"code", code}, {"text", text}})));
}

void TelemetryFile::write_warning_over(double time, const std::string& code) {
  append(json({{"event", "warning_over"}, {"time", time}, {"node", node_}, {"code", code}}).dump());
}

void TelemetryFile::write_end(double time) {
  append(json({{"event", "agent_ended"}, {"time", time}, {"node", node_}}).dump());
}

std::string json_of_sample(const NodeSample& sample, const std::string& node) {
  return json_text(json({{"event", "sample"},
                         {"time", sample.time},
                         {"node", node},
                         {"tasks", list_of_json(sample.tasks)},
                         {"memory_total_bytes", sample.memory.total_bytes},
                         {"memory_available_bytes", sample.memory.available_bytes},
                         {"devices", list_of_json(sample.devices)}}));
}

std::optional<TelemetryLine> parsed_telemetry(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  TelemetryLine line;
  take(object, "event", line.event);
  take(object, "node", line.node);
  take(object, "time", line.time);
  if (line.event.empty() || line.node.empty()) return std::nullopt;
  take(object, "code", line.code);
  take(object, "text", line.text);
  take(object, "period_s", line.period_s);
  take(object, "local_world", line.local_world);
  if (line.event == "sample") line.sample = sample_of(object);
  return line;
}

std::vector<fs::path> telemetry_files(const fs::path& run_dir) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(run_dir, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    const auto name = it->path().filename().string();
    if (name.starts_with("telemetry-") && name.ends_with(".jsonl")) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void read_telemetry(const fs::path& path, const std::function<void(const TelemetryLine&)>& take_line,
                    std::uintmax_t most_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw io_error("open", path, errno);
  file.seekg(0, std::ios::end);
  const auto size = static_cast<std::uintmax_t>(file.tellg());
  std::string text;
  if (size > most_bytes) {
    file.seekg(static_cast<std::streamoff>(size - most_bytes));
    std::getline(file, text);  // The rest of a line that began before.
  } else {
    file.seekg(0);
  }
  // If the last line has no line end, it is incomplete. getline() then reaches the end of the file.
  while (std::getline(file, text) && !file.eof()) {
    if (const auto line = parsed_telemetry(text)) take_line(*line);
  }
}

void TelemetryFile::append(const std::string& line) {
  const std::string whole = line + "\n";
  // One call writes the whole line, so that it is either complete or missing.
  const auto written = ::write(file_.get(), whole.data(), whole.size());
  static_cast<void>(written);
}

}  // namespace lockstep
