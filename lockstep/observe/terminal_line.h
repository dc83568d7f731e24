// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The text between the parts of a line.
inline constexpr std::string_view kSeparator = " · ";
/// The control characters before a line that replaces a live line.
inline constexpr std::string_view kClearLine = "\r\x1b[K";

/// Returns the width of the terminal at `fd`, or `columns` if the terminal does not report it.
int room_of(int fd, int columns);

/// Returns a line that replaces the previous one. If `part` is known (0 to 1) and there is room, the line has a bar
/// that is filled by this part. Then comes the first of `texts`, and as many others as fit.
std::string live_line(std::optional<double> part, std::span<const std::string> texts, int room, bool colour);

}  // namespace lockstep
