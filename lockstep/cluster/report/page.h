// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/report/run_comparison.h"
#include "lockstep/cluster/report/run_report.h"
#include "lockstep/cluster/report/sweep_report.h"

namespace lockstep {

/// What a report is made of, whatever it is written as.
struct ReportPage {
  std::vector<RunReport> runs{};
  std::vector<std::string> tunnels{};  ///< Of each run; empty where there is none.
  RunComparison comparison{};          ///< Empty of a single run, and of a sweep.
  std::optional<SweepReport> sweep{};  ///< Instead of the runs, if it is a sweep that was asked for.
};

}  // namespace lockstep
