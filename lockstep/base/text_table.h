// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

using TableRows = std::vector<std::vector<std::string>>;  ///< The first row is the head. All are of one length.

/// Lays out columns side by side. Words are aligned to the left and numbers to the right.
std::string text_table(const TableRows& rows);

/// Formats the same rows as a Markdown table, and as CSV according to RFC 4180.
std::string markdown_table(const TableRows& rows);
std::string csv_table(const TableRows& rows);

}  // namespace lockstep
