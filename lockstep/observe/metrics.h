// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/observe/events.h"
#include "lockstep/observe/meter.h"
#include "lockstep/observe/wall_clock.h"

namespace lockstep {

/// Writes `metrics.jsonl`: one JSON object a line for each event that has numbers. docs/formats/run-folder.md lists the
/// keys.
///
/// The file is opened at RunStarted. Lines with a step beyond the one resumed from are removed then, and so is a last
/// line that a crash cut short, so curves continue without overlap. Each line is written by one system call, without a
/// sync.
///
/// Throws: Error(kIo) if the file cannot be read, cut or written; Error(kEnvironment) if there is a file of this name
///         that Lockstep did not write. That file stays unchanged.
class MetricsFile final : public Listener {
 public:
  explicit MetricsFile(std::filesystem::path path, WallClock now = std::chrono::system_clock::now);

  using Listener::on;
  std::string name() const override { return "metrics"; }
  Verdict on(const RunStarted& event) override;
  Verdict on(const StepEnded& event) override;
  Verdict on(const ValidationEnded& event) override;
  Verdict on(const SnapshotWritten& event) override;
  Verdict on(const RunEnded& event) override;

 private:
  void write(std::string_view line);
  double seconds_now() const { return unix_seconds(now_()); }

  std::filesystem::path path_;
  WallClock now_;
  FileDescriptor file_;
  IntervalRate rate_;
};

/// One line of `metrics.jsonl`.
struct MetricsLine {
  std::string event;      ///< "run_started", "step", "validation", "snapshot" or "run_ended".
  std::int64_t step = 0;  ///< Steps done when it was written.
  /// The numbers of the line by key. Numbers in nested objects have keys such as "metrics.val_loss". A number that was
  /// not finite is NaN.
  std::map<std::string, double> values;
  std::map<std::string, std::string> texts;
};

/// Parses a line of metrics.jsonl. Returns nothing if `text` is not a complete line of this file.
std::optional<MetricsLine> parsed_metrics(std::string_view text);

/// True if `line` is of a validation that the start `start` repeats, because it does not count that epoch as completed.
bool is_done_again(const MetricsLine& line, const RunStarted& start);

/// Returns the last lines of a file, from this step on. Nothing if there is no such file. The cost depends on the
/// number of these lines, not on the length of the file.
///
/// Throws: Error(kIo) if the file cannot be read.
std::vector<MetricsLine> metrics_from(const std::filesystem::path& path, std::int64_t step);

struct Metrics {
  std::vector<MetricsLine> lines;
  std::vector<std::int64_t> damaged;  ///< Numbers, from 1, of lines before the last that hold no object of ours.
};

/// Reads the metrics.jsonl of a run, which may still be running. An incomplete last line is left out. If a later start
/// did not count an epoch as completed (`first_epoch` of its line), it also leaves out that epoch's validation, since
/// that start repeats it.
///
/// Throws: Error(kIo) if the file cannot be read. Lines that are not understood are skipped.
Metrics read_metrics(const std::filesystem::path& path);

}  // namespace lockstep
