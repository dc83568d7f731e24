// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Checks the options of attention. Throws: Error(kRecipe) unless both are at least 1 and `heads` divides `width`.
void check_heads(std::int64_t width, std::int64_t heads);

/// Checks a size. Throws: Error(kRecipe) naming `key`, unless `value` is at least 1.
void check_positive(const std::string& key, std::int64_t value);

/// Checks a probability. Throws: Error(kRecipe) naming `key`, unless 0 <= `value` < 1.
void check_dropout(const std::string& key, double value);

}  // namespace lockstep
