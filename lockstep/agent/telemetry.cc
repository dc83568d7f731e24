// SPDX-License-Identifier: Apache-2.0
#include "lockstep/agent/telemetry.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

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

json list_of_json(auto samples) {
  json list = json::array();
  for (const auto& each : samples) list.push_back(json_of(each));
  return list;
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

void TelemetryFile::write_sample(double time, std::span<const TaskSample> tasks, const MemorySample& memory,
                                 std::span<const DeviceSample> devices) {
  append(json({{"event", "sample"},
               {"time", time},
               {"node", node_},
               {"tasks", list_of_json(tasks)},
               {"memory_total_bytes", memory.total_bytes},
               {"memory_available_bytes", memory.available_bytes},
               {"devices", list_of_json(devices)}})
             .dump());
}

void TelemetryFile::write_note(double time, const std::string& text) {
  append(json({{"event", "warning"}, {"time", time}, {"node", node_}, {"text", text}})
             .dump(-1, ' ', false, json::error_handler_t::replace));
}

void TelemetryFile::write_end(double time) {
  append(json({{"event", "agent_ended"}, {"time", time}, {"node", node_}}).dump());
}

void TelemetryFile::append(const std::string& line) {
  const std::string whole = line + "\n";
  // One call, so that a line is whole or missing.
  const auto written = ::write(file_.get(), whole.data(), whole.size());
  static_cast<void>(written);
}

}  // namespace lockstep
