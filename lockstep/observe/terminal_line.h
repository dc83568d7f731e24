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

/// What one line of the terminal at `fd` may hold; `columns` where it does not tell.
int room_of(int fd, int columns);

/// A line that takes the place of the one before: a bar, `part` of it (0 to 1) filled, where that is known and there is
/// room, then the first of `texts` and as many others as fit.
std::string live_line(std::optional<double> part, std::span<const std::string> texts, int room, bool colour);

}  // namespace lockstep
