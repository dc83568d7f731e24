// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lockstep/cluster/report/page.h"

namespace lockstep {

/// Returns one object with schema, runs and scaling. Absent values are null, and numbers are not rounded.
/// docs/report.md lists the keys.
nlohmann::ordered_json report_json(const ReportPage& page);

}  // namespace lockstep
