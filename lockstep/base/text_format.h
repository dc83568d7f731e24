// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace lockstep {

// Text in the forms that people, terminals and files want it in.

/// "1 node", "4 nodes".
std::string counted(std::int64_t count, std::string_view noun);

/// `value` with so many digits that tell something: "0.0123", "1.2e-05".
std::string significant(double value, int digits);

/// Formats a duration for people, in the unit that suits it: "12 µs", "1.23 ms", "4.50 s", "02:10:00" from ten minutes
/// on.
std::string human_seconds(double seconds);

/// The first line of `text`, and the last one that is not empty.
std::string_view first_line(std::string_view text);
std::string_view last_line(std::string_view text);

/// Characters of UTF-8, not bytes: "µs" is two wide.
std::size_t width_of(std::string_view text);

/// `text` with spaces behind it, at least `width` wide.
std::string padded(std::string text, std::size_t width);

/// Breaks `text` at spaces into lines of at most `width` characters, each with `indent` before it. A longer word stays
/// whole.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent);

/// One row of a list: `head`, then `text` from column `at` on, broken at spaces into lines of at most `width`
/// characters. Where `head` is too long, `text` begins on the next line.
std::string list_row(std::string_view head, std::size_t at, std::string_view text, std::size_t width);

/// With zeros in front, at least `width` digits wide: "0042". LOCKSTEP_ASSERT: `number` is not negative.
std::string zero_padded(std::int64_t number, std::size_t width);

/// A part of a file's name: letters, digits and what is `kept` stay, anything else becomes '-'.
std::string fit_for_a_file(std::string_view text, std::string_view kept = "-._");

/// Replaces each `{name}` in `text` by its value. `${name}` stays as it is: a shell expands it.
///
/// Throws: Error(kRecipe) naming a `{name}` that is not among `values`.
std::string expand_template(std::string_view text, const std::map<std::string, std::string>& values);

/// What a rank's files are named by: "rank-0003".
std::string rank_name(std::int64_t rank);

/// A cell of a CSV file: in quotes where it must be, after RFC 4180.
std::string csv_cell(std::string_view text);

}  // namespace lockstep
