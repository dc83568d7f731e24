// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// Reads the placement that `lockstep launch` gives this process. Nothing if `lockstep launch` did not start it.
/// `device` stays open.
///
/// Throws: Error(kEnvironment) naming the variables if the set is incomplete or out of range.
std::optional<Placement> placement_from_lockstep(const Environment& env);

/// Reads the placement that torchrun gives this process. Nothing if torchrun did not start it. `device` stays open.
///
/// Throws: Error(kEnvironment) naming the variables if the set is incomplete or out of range.
std::optional<Placement> placement_from_torchrun(const Environment& env);

/// True if torchrun's own agent set the variables, and not a script that exports the same names.
bool is_torchrun_agent(const Environment& env);

}  // namespace lockstep
