// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "lockstep/watch/verdict.h"

namespace lockstep {

/// The answer to a request of kind "why": what each rank does, and who holds up the others.
nlohmann::json answer_of(const std::vector<RankSight>& ranks, const std::optional<WatchVerdict>& verdict);

}  // namespace lockstep
