// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/cluster/report/run_comparison.h"
#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// What a report is made of, whatever it is written as.
struct ReportPage {
  std::vector<RunReport> runs{};
  std::vector<std::string> tunnels{};  ///< Of each run; empty where there is none.
  RunComparison comparison{};          ///< Empty of a single run.
};

/// For a terminal: each run, then how they compare.
std::string report_text(const ReportPage& page);

/// One object: schema, runs, scaling. Absent values are null, numbers as they are; docs/report.md has the keys.
nlohmann::ordered_json report_json(const ReportPage& page);

/// One page that needs nothing else: no scripts, no fonts, no other files. Readable on light and dark screens.
std::string report_html(const ReportPage& page);

/// What to do with `tunnel` to see a run in TensorBoard.
std::string tensorboard_words(const RunReport& report, const std::string& tunnel);

}  // namespace lockstep
