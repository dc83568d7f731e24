// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/record/scaling.h"
#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// Several runs side by side.
struct RunComparison {
  std::vector<ScalingRow> rows{};        ///< Of those that have taken a step; labelled by what their recipes differ in.
  std::vector<std::string> sentences{};  ///< What more ranks, DP, another model or a larger batch cost or bring.
};

/// Runs whose recipes are the same but for the number of ranks are rows of one label. Settings that only say where a
/// run is, for how long or how it is watched make no label, nor do trainer.strategy's "single", "ddp" and "auto": the
/// ranks tell them apart.
RunComparison compared(const std::vector<RunReport>& reports);

}  // namespace lockstep
