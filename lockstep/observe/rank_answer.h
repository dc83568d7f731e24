// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "lockstep/watch/verdict.h"

namespace lockstep {

/// The answer to a request of kind "why": what each rank does, and who holds up the others. `views` has what was seen
/// of ranks from outside, under their numbers. It may be null.
nlohmann::json answer_of(const std::vector<RankSight>& ranks, const std::optional<WatchVerdict>& verdict,
                         const nlohmann::json& views);

/// One entry of its "ranks".
nlohmann::json object_of(const RankSight& rank);

/// Returns the rank of such an entry. Nothing if it is none.
std::optional<RankSight> rank_sight_of(const nlohmann::json& object);

}  // namespace lockstep
