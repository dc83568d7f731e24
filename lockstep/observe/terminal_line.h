// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Between the parts of a line for people.
inline constexpr std::string_view kSeparator = " · ";
/// Before a line that takes a live one's place.
inline constexpr std::string_view kClearLine = "\r\x1b[K";

/// Returns the width of the terminal at `fd`, or `columns` if the terminal does not report it.
int room_of(int fd, int columns);

/// Returns a line that replaces the previous one. It has a bar with `part` of it (0 to 1) filled, if that is known and
/// there is room. Then comes the first of `texts`, and as many others as fit.
std::string live_line(std::optional<double> part, std::span<const std::string> texts, int room, bool colour);

}  // namespace lockstep
