// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace lockstep {

// Formats numbers, times and text for people, terminals and files.

/// "1 node", "4 nodes".
std::string counted(std::int64_t count, std::string_view noun);

/// Formats `value` with `digits` significant digits, such as "0.0123" or "1.2e-05".
std::string significant(double value, int digits);

/// Formats a duration for people, in a suitable unit, such as "12 µs", "1.23 ms" or "4.50 s". From ten minutes on it is
/// "02:10:00".
std::string human_seconds(double seconds);

/// Return the first line of `text`, and the last line that is not empty.
std::string_view first_line(std::string_view text);
std::string_view last_line(std::string_view text);

/// Counts characters of UTF-8, not bytes. "µs" is two wide.
std::size_t width_of(std::string_view text);

/// Pads `text` with spaces at the end to at least `width` characters.
std::string padded(std::string text, std::size_t width);

/// Breaks `text` at spaces into lines of at most `width` characters, each with `indent` before it. A longer word is not
/// broken.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent);

/// Formats one row of a list. `head` comes first, then `text` from column `at` on, broken at spaces into lines of at
/// most `width` characters. If `head` is too long, `text` begins on the next line.
std::string list_row(std::string_view head, std::size_t at, std::string_view text, std::size_t width);

/// Formats a number with leading zeros, at least `width` digits wide, such as "0042". LOCKSTEP_ASSERT: `number` is not
/// negative.
std::string zero_padded(std::int64_t number, std::size_t width);

/// Makes `text` fit for a file's name. Letters, digits and the characters in `kept` stay. All others become '-'.
std::string fit_for_a_file(std::string_view text, std::string_view kept = "-._");

/// Replaces each `{name}` in `text` by its value. `${name}` is unchanged, since a shell expands it.
///
/// Throws: Error(kRecipe) naming a `{name}` that is not among `values`.
std::string expand_template(std::string_view text, const std::map<std::string, std::string>& values);

/// Returns the name for a rank's files, such as "rank-0003".
std::string rank_name(std::int64_t rank);

/// Formats a cell of a CSV file, in quotes if RFC 4180 requires them.
std::string csv_cell(std::string_view text);

}  // namespace lockstep
