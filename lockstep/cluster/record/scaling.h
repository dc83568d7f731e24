// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/text_table.h"
#include "lockstep/cluster/record/billing.h"
#include "lockstep/cluster/record/run_timeline.h"

namespace lockstep {

/// The share of an epoch's time from which a loss is reported. Removing a smaller part would make the epoch at most a
/// ninth faster.
inline constexpr double kNoticedLoss = 0.1;

/// The facts on a run's speed from its own record. For a run with several starts, the last one counts.
struct RunFigures {
  std::filesystem::path path;
  std::string label;        ///< The settings that were varied apart from the number of ranks, such as "model.name=cnn".
                            ///< Empty if there are none.
  bool is_program = false;  ///< True if only its time is known, as run_s and epoch_s.
  int nodes = 1;
  int ranks = 1;
  double batch = 0;  ///< Of one rank.
  std::int64_t global_batch = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;   ///< Of all ranks.
  bool is_only_start = true;  ///< True if the run began with this start.
  double step_s = 0;
  double epoch_s = 0;       ///< With validation and snapshots.
  PhaseSeconds phases_s{};  ///< Of an epoch.
  double start_s = 0;       ///< From a process's start to its first step. 0 until the run ends.
  double run_s = 0;         ///< From that start to the end.
  double samples_per_second = 0;

  double energy_joules = 0;  ///< Of the devices that report power, over all starts. 0 if none does.
  JobBilling billing{};      ///< The site's charge for its job.

  double node_hours() const { return run_s * nodes / 3600; }
  double billed_hours() const { return billing.hours(run_s, nodes); }
  /// The energy for each sample. Nothing if no device reports power, or if the energy was also used for samples of
  /// other starts.
  std::optional<double> kwh_per_sample() const;
};

/// Throws: Error(kIo) if there is no run; Error(kData) if the run has made no step or has not ended.
RunFigures figures_of_run(const std::filesystem::path& run_dir);

/// Returns the figures of one start of a run that may still be running. LOCKSTEP_ASSERT: it has taken a step.
RunFigures figures_of(const RunSegment& start);

/// Returns the figures of a program other than a recipe: only nodes, ranks, run_s, billing and energy are set.
RunFigures program_figures(RunFigures run);

/// A run among others.
struct ScalingRow {
  RunFigures run{};
  double speed_up = 1;    ///< Of an epoch, over the row with the fewest ranks and the same label.
  double efficiency = 1;  ///< That over what more ranks were taken.
  std::string limit;      ///< The phase that limits it. In the first row it is the longest, else the one that grew most
                          ///< beyond its share.
};

/// Returns the runs sorted by label, in the order in which labels first occur, and then by ranks.
std::vector<ScalingRow> scaling_rows(std::vector<RunFigures> runs);

/// Returns the rows of a table, with its head, for text_table() and similar functions. For programs the table has their
/// time, but no steps.
TableRows scaling_table(const std::vector<ScalingRow>& rows);
nlohmann::ordered_json scaling_json(const std::vector<ScalingRow>& rows);

}  // namespace lockstep
