// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/cluster/plan.h"

namespace lockstep {

/// The plan for a person: what the training is, a table by nodes, and where each number is from.
std::string plan_text(const PlanQuestion& question, const std::vector<PlanPoint>& points);

/// The same as one object.
nlohmann::ordered_json plan_json(const PlanQuestion& question, const std::vector<PlanPoint>& points);

/// "1.23 ms", "4.5 s", "02:10:00": for people.
std::string human_seconds(double seconds);

/// "within 12 %".
std::string human_error(const std::optional<double>& error);

}  // namespace lockstep
