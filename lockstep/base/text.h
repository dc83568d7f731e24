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

/// Splits `text` at each `separator`. With n separators it returns n + 1 parts, and some may be empty.
std::vector<std::string> split(std::string_view text, char separator);

/// Returns `text` without the white space at both ends.
std::string_view trimmed(std::string_view text);

/// Joins the parts with `separator` between them.
std::string joined(std::span<const std::string> parts, std::string_view separator);

/// Parses the whole of `text` as a decimal number. Returns nothing if `text` has spaces or trailing letters, or if the
/// number overflows.
template <typename Int>
std::optional<Int> parsed_int(std::string_view text) {
  Int value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Parses the whole of `text` as a finite number. Returns nothing if it is not one.
std::optional<double> parsed_double(std::string_view text);

/// Returns the shortest decimal text that reads back as exactly `value`. Special values are "nan", "inf" and "-inf".
std::string shortest(double value);

/// Formats `value` with `digits` digits after the point.
std::string fixed(double value, int digits);

/// Returns the one of `names` that a person who typed `word` most likely meant. Returns nothing if no name is similar.
std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names);

/// Formats a size for people, "1.5 MiB" or "812 B". Never use it in a file.
std::string human_bytes(std::uint64_t bytes);

/// Lower-case hexadecimal, 16 digits.
std::string hex64(std::uint64_t value);

}  // namespace lockstep
