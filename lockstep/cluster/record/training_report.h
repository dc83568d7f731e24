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

/// The first epoch of a run beside the median of its later whole ones.
struct FirstEpoch {
  double seconds = 0;
  double later_s = 0;             ///< Median of the later ones.
  double slowest_later_s = 0;     ///< The most of the later ones.
  PhaseSeconds more_s{};          ///< By phase, than the later ones' medians; may be below 0.
  std::int64_t first_steps = 0;   ///< Up to the first logged line; 0 where there is none.
  double first_steps_more_s = 0;  ///< Than as many steps of the run's median.
};

/// How long a step takes, over the logged lines.
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
  bool is_best = false;  ///< By snapshot.monitor or, without one, by the lowest val_loss; else the newest.
  std::map<std::string, double> metrics{};
};

/// What metrics.jsonl tells of a training that has taken a step. Of several starts the last one that has counts.
struct TrainingReport {
  RunFigures figures{};
  std::int64_t parameters = 0;
  std::int64_t steps_done = 0;     ///< Over all starts.
  std::int64_t steps_planned = 0;  ///< 0 where there is no such plan.
  std::int64_t epochs_planned = 0;
  std::int64_t steps_per_epoch = 0;
  double epochs_done = 0;
  std::optional<double> time_to_first_step_s{};  ///< Only an end tells.
  std::map<std::string, double> metrics{};       ///< The last of each.
  std::optional<KeptSnapshot> snapshot{};
  std::vector<EpochTimes> epochs{};  ///< Of all starts.
  std::optional<FirstEpoch> first_epoch{};
  std::optional<StepSpread> step_spread{};
  std::vector<LoggedSteps> logged{};       ///< Of all starts.
  std::vector<MetricsLine> validations{};  ///< Of all starts.
  std::int64_t device_peak_bytes = 0;      ///< What rank 0's tensors held at most; 0 where it is not told.
};

/// What the starts of one run tell together; nothing where none has taken a step. `snapshots_dir` tells which snapshots
/// are still there.
std::optional<TrainingReport> training_report(const std::vector<RunSegment>& starts,
                                              const std::filesystem::path& snapshots_dir);

}  // namespace lockstep
