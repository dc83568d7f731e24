// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/record/scaling.h"
#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// The comparison of several runs.
struct RunComparison {
  std::vector<ScalingRow> rows{};        ///< Rows of the runs that have taken a step, labelled by the settings in which
                                         ///< their recipes differ.
  std::vector<std::string> sentences{};  ///< The cost or gain of more ranks, DP, another model or a larger batch.
};

/// Compares runs. Runs whose recipes differ only in the number of ranks are rows of one label. Settings that only
/// change where a run is, how long it is or how it is observed do not count as a difference. Nor do the values
/// "single", "ddp" and "auto" of trainer.strategy, since the number of ranks shows that.
RunComparison compared(const std::vector<RunReport>& reports);

}  // namespace lockstep
