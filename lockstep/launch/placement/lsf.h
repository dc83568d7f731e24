// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// Reads the placement that LSF's jsrun gives this process. Nothing if LSF's jsrun did not start it. `device` stays
/// open.
///
/// Throws: Error(kEnvironment) naming the variables if some are missing or out of range.
std::optional<Placement> placement_from_lsf(const Environment& env);

}  // namespace lockstep
