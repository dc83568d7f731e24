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

/// Returns one entry of the answer's list "ranks".
nlohmann::json object_of(const RankSight& rank);

/// Parses such an entry. Returns nothing if `entry` is not one.
std::optional<RankSight> rank_sight_of(const nlohmann::json& object);

}  // namespace lockstep
