// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Returns a finding as an object {"code", "severity", "fact", "fix", "hosts"}.
nlohmann::json json_of(const Finding& finding);

/// Reads a finding back. Throws: Error(kPeer) if json_of() did not write this.
Finding finding_of(const nlohmann::json& object);

/// Formats the findings for a person, errors first, each with its fix, and then their number of each kind. If there are
/// none, it says how many checks were made, on how many tasks.
std::string text_of(std::vector<Finding> findings, const CheckCounts& checks, std::size_t tasks = 1);

/// {"node", "job", "run"}.
nlohmann::json json_of(const CheckCounts& checks);

/// Sorts errors first, then warnings, then notes. Otherwise their order stays.
std::vector<Finding> sorted(std::vector<Finding> findings);

}  // namespace lockstep
