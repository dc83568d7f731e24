// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/agent/device_sensor.h"
#include "lockstep/agent/process_tree.h"
#include "lockstep/agent/task_register.h"
#include "lockstep/base/file.h"

namespace lockstep {

/// What one task used, as of now.
struct TaskSample {
  RegisteredTask task{};
  TreeSample used{};
};

/// A node's part of a run's telemetry: one JSON object a line, appended to over restarts. docs/exec.md has the keys.
///
/// Nothing here throws once the file is open: a full disk must not end what watches the run.
class TelemetryFile {
 public:
  /// Throws: Error(kIo) where the file cannot be opened.
  TelemetryFile(const std::filesystem::path& path, std::string node);

  void write_start(double time, double period_s, int local_world);
  void write_sample(double time, std::span<const TaskSample> tasks, const MemorySample& memory,
                    std::span<const DeviceSample> devices);
  void write_note(double time, const std::string& text);
  void write_end(double time);

 private:
  void append(const std::string& line);

  FileDescriptor file_;
  std::string node_;
};

}  // namespace lockstep
