// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/record/scaling.h"

namespace lockstep {

/// Speed-up over ranks, a line for each label beside the ideal one, as SVG.
std::string scaling_chart(const std::vector<ScalingRow>& rows);

}  // namespace lockstep
