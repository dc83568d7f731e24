// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/report/page.h"

namespace lockstep {

/// Formats a report for a terminal, each run first and then their comparison.
std::string report_text(const ReportPage& page);

/// Returns a text that explains how to see a run in TensorBoard through the command `tunnel`.
std::string tensorboard_words(const RunReport& report, const std::string& tunnel);

}  // namespace lockstep
