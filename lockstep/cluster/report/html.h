// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/report/page.h"

namespace lockstep {

/// One page that needs nothing else: no scripts, no fonts, no other files. Readable on light and dark screens.
std::string report_html(const ReportPage& page);

}  // namespace lockstep
