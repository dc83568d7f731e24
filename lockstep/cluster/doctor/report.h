// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// {"code", "severity", "fact", "fix", "hosts"}.
nlohmann::json json_of(const Finding& finding);

/// Throws: Error(kPeer) for what json_of() did not make.
Finding finding_of(const nlohmann::json& object);

/// The findings for a person, errors first, each with its fix; then how many there are of each kind. Says how many
/// checks were made, on how many tasks, if there are none.
std::string text_of(std::vector<Finding> findings, const CheckCounts& checks, std::size_t tasks = 1);

/// {"node", "job", "run"}.
nlohmann::json json_of(const CheckCounts& checks);

/// Errors first, then warnings, then notes; otherwise as they came.
std::vector<Finding> sorted(std::vector<Finding> findings);

}  // namespace lockstep
