// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/report/run_comparison.h"
#include "lockstep/cluster/report/run_report.h"
#include "lockstep/cluster/report/sweep_report.h"

namespace lockstep {

/// The content of a report, for every format.
struct ReportPage {
  std::vector<RunReport> runs{};
  std::vector<std::string> tunnels{};  ///< Of each run. Empty if there is none.
  RunComparison comparison{};          ///< Empty of a single run, and of a sweep.
  std::optional<SweepReport> sweep{};  ///< Instead of the runs, if it is a sweep that was asked for.
};

}  // namespace lockstep
