// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/report/page.h"

namespace lockstep {

/// Returns one self-contained page, without scripts, fonts or other files. It is readable on light and dark screens.
std::string report_html(const ReportPage& page);

}  // namespace lockstep
