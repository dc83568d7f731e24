// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Converts between text and the bytes that a c10d::Store takes.

inline std::vector<std::uint8_t> to_bytes(std::string_view text) { return {text.begin(), text.end()}; }
inline std::string to_text(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace lockstep
