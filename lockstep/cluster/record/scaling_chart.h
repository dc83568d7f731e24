// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/record/scaling.h"

namespace lockstep {

/// Returns a chart of speed-up over ranks as SVG. It has a line for each label, and one for ideal scaling.
std::string scaling_chart(const std::vector<ScalingRow>& rows);

}  // namespace lockstep
