// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The value of a word, as the shell would pass it to a program. A part that only the shell can know, such as
/// `$(date)`, stays as written.
struct ShellValue {
  std::string text{};
  bool is_known = true;  ///< False if such a part is in it.
};

/// A variable that a script assigns.
struct ShellVariable {
  ShellValue value{};
  bool is_exported = false;
  int line = 0;
};

using ShellVariables = std::map<std::string, ShellVariable, std::less<>>;

/// Returns `raw` without its quotes, and with the variables in `variables` replaced by their values.
ShellValue shell_value(std::string_view raw, const ShellVariables& variables);

/// Returns "NAME" of `NAME=value` or `NAME+=value`, or nothing if the word assigns nothing.
std::string assigned_name(std::string_view word);

/// Returns the names of the variables in a word, also of those within `$(…)` and quotes.
std::vector<std::string> names_in(std::string_view raw);

/// True if the shell that reads this word would replace `$name` in it. In single quotes the shell does not.
bool expands_name(std::string_view raw, std::string_view name);

}  // namespace lockstep
