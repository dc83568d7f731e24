// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/record/run_timeline.h"
#include "lockstep/cluster/record/scaling.h"

namespace lockstep {

/// The time of a run's first epoch, and the median time of its later complete epochs.
struct FirstEpoch {
  double seconds = 0;
  double later_s = 0;             ///< Median of the later ones.
  double slowest_later_s = 0;     ///< The most of the later ones.
  PhaseSeconds more_s{};          ///< By phase, than the later ones' medians. May be below 0.
  std::int64_t first_steps = 0;   ///< Up to the first logged line. 0 if there is none.
  double first_steps_more_s = 0;  ///< Than as many steps of the run's median.
};

/// The time of a step, from the logged lines.
struct StepSpread {
  double median_s = 0;
  double fastest_s = 0;
  double slowest_s = 0;
  std::int64_t slowest_at = 0;  ///< The step at whose line.
  std::size_t lines = 0;
};

struct KeptSnapshot {
  std::string name{};  ///< "step-0000000116"
  std::int64_t step = 0;
  bool is_best = false;  ///< By snapshot.monitor or, without one, by the lowest val_loss. Else it is the newest.
  std::map<std::string, double> metrics{};
};

/// The facts on a training that has made at least one step, from metrics.jsonl. If the run has several starts, the last
/// start that made a step counts.
struct TrainingReport {
  RunFigures figures{};
  std::int64_t parameters = 0;
  std::int64_t steps_done = 0;     ///< Over all starts.
  std::int64_t steps_planned = 0;  ///< 0 if there is no such plan.
  std::int64_t epochs_planned = 0;
  std::int64_t steps_per_epoch = 0;
  double epochs_done = 0;
  std::optional<double> time_to_first_step_s{};  ///< Only the end of a run gives it.
  std::map<std::string, double> metrics{};       ///< The last of each.
  std::optional<KeptSnapshot> snapshot{};
  std::vector<EpochTimes> epochs{};  ///< Of all starts.
  std::optional<FirstEpoch> first_epoch{};
  std::optional<StepSpread> step_spread{};
  std::vector<LoggedSteps> logged{};       ///< Of all starts.
  std::vector<MetricsLine> validations{};  ///< Of all starts.
  std::int64_t device_peak_bytes = 0;      ///< Largest number of bytes in rank 0's tensors. 0 if unknown.
};

/// Makes the report from the starts of one run. Returns nothing if no start has made a step. `snapshots_dir` shows
/// which snapshots still exist.
std::optional<TrainingReport> training_report(const std::vector<RunSegment>& starts,
                                              const std::filesystem::path& snapshots_dir);

}  // namespace lockstep
