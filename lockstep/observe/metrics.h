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
/// The file is opened at RunStarted. Lines with a step beyond the one resumed from are cut there, and a last line that
/// a crash tore, so that curves go on without overlap. Each line is one system call, and none is synced.
///
/// Throws: Error(kIo) where the file cannot be read, cut or written; Error(kEnvironment) where a file of that name is
/// there that is none of ours, which is then left as it is.
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
  /// Its numbers by key, those of nested objects as "metrics.val_loss"; a number that was not finite is NaN.
  std::map<std::string, double> values;
  std::map<std::string, std::string> texts;
};

/// Nothing where `text` is no whole line of ours.
std::optional<MetricsLine> parsed_metrics(std::string_view text);

/// True if `line` is of a validation whose epoch `start` does not take for completed, so that it validates it again.
bool is_done_again(const MetricsLine& line, const RunStarted& start);

/// The last lines of a file that are of this step or a later one; nothing if there is no such file. It costs what these
/// lines cost, whatever is before them.
///
/// Throws: Error(kIo) where the file cannot be read.
std::vector<MetricsLine> metrics_from(const std::filesystem::path& path, std::int64_t step);

struct Metrics {
  std::vector<MetricsLine> lines;
  std::vector<std::int64_t> damaged;  ///< Numbers, from 1, of lines before the last that hold no object of ours.
};

/// What a run, live or dead, has written until now. A torn last line is left out, and so is the validation of an epoch
/// that a later start did not take for completed (`first_epoch` of its line): that start validates it again.
///
/// Throws: Error(kIo) where the file cannot be read; never for what it holds.
Metrics read_metrics(const std::filesystem::path& path);

}  // namespace lockstep
