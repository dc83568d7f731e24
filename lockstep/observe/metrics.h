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

/// Writes `metrics.jsonl`: one JSON object a line for each event that has numbers. docs/run-folder.md lists the keys.
///
/// The file is opened at RunStarted. Lines with a step beyond the one resumed from are removed then, and so is a last
/// line that a crash cut short, so curves continue without overlap. Each line is one system call, and none is synced.
///
/// Throws: Error(kIo) if the file cannot be read, cut or written; Error(kEnvironment) if a file of that name is there
/// that is none of ours, which is then left as it is.
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
  /// Its numbers by key, those of nested objects as "metrics.val_loss". A number that was not finite is NaN.
  std::map<std::string, double> values;
  std::map<std::string, std::string> texts;
};

/// Returns nothing if `text` is not a complete line of ours.
std::optional<MetricsLine> parsed_metrics(std::string_view text);

/// True if `line` is of a validation whose epoch `start` does not take for completed, so that it validates it again.
bool is_done_again(const MetricsLine& line, const RunStarted& start);

/// Returns the last lines of a file, from this step on. Nothing if there is no such file. The cost depends on these
/// lines only, not on what comes before them.
///
/// Throws: Error(kIo) if the file cannot be read.
std::vector<MetricsLine> metrics_from(const std::filesystem::path& path, std::int64_t step);

struct Metrics {
  std::vector<MetricsLine> lines;
  std::vector<std::int64_t> damaged;  ///< Numbers, from 1, of lines before the last that hold no object of ours.
};

/// Reads what a live or dead run has written until now. It leaves out an incomplete last line. If a later start did not
/// count an epoch as completed (`first_epoch` of its line), it also leaves out that epoch's validation, since that
/// start repeats it.
///
/// Throws: Error(kIo) if the file cannot be read; never for what it holds.
Metrics read_metrics(const std::filesystem::path& path);

}  // namespace lockstep
