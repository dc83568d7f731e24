// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/cluster/plan/plan.h"

namespace lockstep {

/// Formats the plan for a person. It describes the training, has a table by nodes, and gives the source of each number.
std::string plan_text(const PlanQuestion& question, const std::vector<PlanPoint>& points);

/// Returns the plan as one JSON object.
nlohmann::ordered_json plan_json(const PlanQuestion& question, const std::vector<PlanPoint>& points);

}  // namespace lockstep
