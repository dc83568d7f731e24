// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/base/text_table.h"
#include "lockstep/cluster/record/sweep_record.h"
#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// A sweep's trials and their results.
struct SweepReport {
  std::string name{};
  std::vector<SweptTrial> trials{};
  std::vector<std::optional<RunReport>> runs{};  ///< Of each trial. Nothing if its folder is not there.
};

/// Returns a row for each trial, with the swept values, its state, its time, and the last value of each of its metrics.
TableRows sweep_table(const SweepReport& sweep);

/// Returns a summary such as "9 trials: 7 finished, 2 waiting". If at least two trials have a val_loss, it also names
/// the trial with the lowest one.
std::vector<std::string> sweep_sentences(const SweepReport& sweep);

/// Returns the trials as JSON: [{"name", "sets": {NAME: VALUE}, "run_dir", "state", "exit_code", "wall_s", "metrics"}].
/// Unknown values are null.
nlohmann::json sweep_json(const SweepReport& sweep);

}  // namespace lockstep
