// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/record/scaling.h"
#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// Several runs side by side.
struct RunComparison {
  std::vector<ScalingRow> rows{};        ///< Rows of the runs that have taken a step, labelled by the settings in which
                                         ///< their recipes differ.
  std::vector<std::string> sentences{};  ///< The cost or gain of more ranks, DP, another model or a larger batch.
};

/// Compares runs. Runs whose recipes differ only in the number of ranks are rows of one label. Settings on a run's
/// place, length or observation make no label. Nor do trainer.strategy's "single", "ddp" and "auto", since the numbers
/// of ranks tell them apart.
RunComparison compared(const std::vector<RunReport>& reports);

}  // namespace lockstep
