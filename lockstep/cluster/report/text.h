// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/report/page.h"

namespace lockstep {

/// For a terminal: each run, then how they compare.
std::string report_text(const ReportPage& page);

/// What to do with `tunnel` to see a run in TensorBoard.
std::string tensorboard_words(const RunReport& report, const std::string& tunnel);

}  // namespace lockstep
