// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

using TableRows = std::vector<std::vector<std::string>>;  ///< The first row is the head. All are of one length.

/// Columns side by side, words to the left and numbers to the right.
std::string text_table(const TableRows& rows);

/// The same as Markdown, and as CSV after RFC 4180.
std::string markdown_table(const TableRows& rows);
std::string csv_table(const TableRows& rows);

}  // namespace lockstep
