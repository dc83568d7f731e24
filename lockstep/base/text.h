// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// `text` cut at each `separator`. N separators give n + 1 parts, some perhaps empty.
std::vector<std::string> split(std::string_view text, char separator);

/// `text` without the white space at both ends.
std::string_view trimmed(std::string_view text);

/// The parts with `separator` between them.
std::string joined(std::span<const std::string> parts, std::string_view separator);

/// Parses the whole of `text` as a decimal number. Returns nothing if there are spaces or trailing letters, or on
/// overflow.
template <typename Int>
std::optional<Int> parsed_int(std::string_view text) {
  Int value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The whole of `text` as a finite number, or nothing.
std::optional<double> parsed_double(std::string_view text);

/// Returns the shortest decimal text that reads back as exactly `value`. Special values are "nan", "inf" and "-inf".
std::string shortest(double value);

/// `value` with `digits` digits after the point.
std::string fixed(double value, int digits);

/// Of `names`, the one that a person most likely meant by `word`, or nothing if none is near.
std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names);

/// Formats a size for people, "1.5 MiB" or "812 B". Never use it in a file.
std::string human_bytes(std::uint64_t bytes);

/// Lower-case hexadecimal, 16 digits.
std::string hex64(std::uint64_t value);

}  // namespace lockstep
