// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lockstep/cluster/report/page.h"

namespace lockstep {

/// One object: schema, runs, scaling. Absent values are null, numbers as they are; docs/report.md has the keys.
nlohmann::ordered_json report_json(const ReportPage& page);

}  // namespace lockstep
