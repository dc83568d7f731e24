// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep {

/// Returns a number for JSON. JSON has no numbers that are not finite, so they become the text "nan", "inf" or "-inf".
nlohmann::json to_json_number(double value);

/// Returns the number that to_json_number() wrote. null becomes NaN, since the JSON library writes NaN as null.
///
/// Throws: std::runtime_error for any other text, an object or a list.
double from_json_number(const nlohmann::json& value);

}  // namespace lockstep
