// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/observe/metrics.h"

namespace lockstep {

/// The phases of an epoch's time.
enum class EpochPhase { kTraining, kValidation, kSnapshots, kRest };
inline constexpr std::array<std::string_view, 4> kEpochPhases = {"training", "validation", "snapshots", "rest"};
using PhaseSeconds = std::array<double, kEpochPhases.size()>;

inline constexpr double kNotTold = std::numeric_limits<double>::quiet_NaN();

/// Returns a number from a line, or `otherwise` if it is missing or not finite.
double number_of(const MetricsLine& line, const std::string& key, double otherwise = kNotTold);

/// The steps between two logged lines.
struct LoggedSteps {
  std::int64_t from = 0;  ///< Steps done before.
  std::int64_t to = 0;
  double seconds = 0;  ///< Seconds in steps, with reading but without validation and snapshots.
  double time = 0;     ///< Of the line, in seconds since 1970.
  double loss = kNotTold;
  double samples_per_second = kNotTold;

  double step_s() const { return seconds / static_cast<double>(to - from); }
};

/// An epoch, or the part of it that one start of a run has done.
struct EpochTimes {
  std::int64_t epoch = 0;
  std::int64_t steps = 0;  ///< Done until now, in this start.
  bool is_whole = false;
  double seconds = 0;  ///< From the end of the epoch before, or from the start's first event.
  PhaseSeconds phases_s{};
};

/// The lines of one start of a run in metrics.jsonl.
struct RunSegment {
  MetricsLine started{};
  MetricsLine ended{};  ///< Its event is empty if there is no end, because the run is still running or broke off.
  double last_time = 0;
  std::int64_t last_step = 0;
  double validation_s = 0;
  double snapshot_s = 0;
  std::vector<LoggedSteps> logged{};
  std::vector<MetricsLine> marks{};  ///< Its validations and snapshots.
  std::vector<EpochTimes> epochs{};

  bool has_ended() const { return !ended.event.empty(); }
  std::int64_t steps() const { return last_step - started.step; }
  double started_at() const { return number_of(started, "time", 0); }
  /// Returns the time from the first event to the last. If the run has ended, the run's own measurement is used.
  double seconds() const;
  /// Returns the seconds in steps from `from` to `to`, from the logged lines between them, or from the logged mean if
  /// there is none.
  double seconds_in_steps(std::int64_t from, std::int64_t to) const;
};

/// Returns the starts of a run, in order. Lines before the first start are skipped.
///
/// Throws: as read_metrics().
std::vector<RunSegment> run_starts(const std::filesystem::path& metrics);

}  // namespace lockstep
