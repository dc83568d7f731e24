// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/telemetry/device_sensor.h"
#include "lockstep/telemetry/process_tree.h"
#include "lockstep/telemetry/task_register.h"

namespace lockstep {

/// The resources that one task has used until now.
struct TaskSample {
  RegisteredTask task{};
  TreeSample used{};
};

/// The measurements of a node at one moment.
struct NodeSample {
  double time = 0;                  ///< Seconds since 1970.
  std::vector<TaskSample> tasks{};  ///< Those that live.
  MemorySample memory{};
  std::vector<DeviceSample> devices{};
  double devices_silent_s = 0;  ///< For how long the devices' driver has not answered. Not written.
};

/// The file with one node's part of a run's telemetry, one JSON object on each line. Restarts append to it.
/// docs/cluster/exec.md lists the keys.
///
/// Once the file is open, no function throws, since a full disk must not end the process that watches the run.
class TelemetryFile {
 public:
  /// Opens the file. Throws: Error(kIo) if that fails.
  TelemetryFile(const std::filesystem::path& path, std::string node);

  void write_start(double time, double period_s, int local_world);
  void write_sample(const NodeSample& sample);
  void write_warning(double time, const std::string& code, const std::string& text);
  /// Writes a line that says that the warning with this code has ended.
  void write_warning_over(double time, const std::string& code);
  void write_end(double time);

 private:
  void append(const std::string& line);

  FileDescriptor file_;
  std::string node_;
};

/// One line of a node's telemetry, as it is read.
struct TelemetryLine {
  std::string event{};  ///< "agent_started", "sample", "warning", "warning_over" or "agent_ended".
  std::string node{};
  double time = 0;      ///< Seconds since 1970.
  NodeSample sample{};  ///< Of a "sample".
  std::string code{};   ///< For a "warning" and its end, such as "sockets" or "devices-silent".
  std::string text{};   ///< Of a "warning".
  double period_s = 0;  ///< For an "agent_started", the time between two samples.
  int local_world = 0;  ///< For an "agent_started", the tasks of the node.
};

/// Returns the run's telemetry files, one for each node, sorted by name. Empty if there are none.
std::vector<std::filesystem::path> telemetry_files(const std::filesystem::path& run_dir);

/// Calls `take` for each complete line in the file's last `most_bytes` bytes, in order. Lines that are not telemetry,
/// and an incomplete last line, are left out.
///
/// Throws: Error(kIo) if the file cannot be read. Lines that are not understood are skipped.
void read_telemetry(const std::filesystem::path& path, const std::function<void(const TelemetryLine&)>& take,
                    std::uintmax_t most_bytes = std::numeric_limits<std::uintmax_t>::max());

/// Convert a sample to the text of its JSON object, and back. The second returns nothing if the object is not a sample.
std::string json_of_sample(const NodeSample& sample, const std::string& node);
std::optional<TelemetryLine> parsed_telemetry(std::string_view line);

}  // namespace lockstep
