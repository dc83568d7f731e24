// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Throws: Error(kRecipe) unless both are at least 1 and `heads` divides `width`.
void check_heads(std::int64_t width, std::int64_t heads);

/// Throws: Error(kRecipe) unless `value` is at least 1, naming `key`.
void check_positive(const std::string& key, std::int64_t value);

/// Throws: Error(kRecipe) unless 0 <= `value` < 1, naming `key`.
void check_dropout(const std::string& key, double value);

}  // namespace lockstep
