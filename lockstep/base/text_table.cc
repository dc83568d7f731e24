// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text_table.h"

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
}

std::string aligned(const std::string& text, std::size_t width, bool to_right) {
  const std::string gap(width - std::min(width, width_of(text)), ' ');
  return to_right ? gap + text : text + gap;
}

/// For each column, its width and whether every cell below the head is a number.
struct Columns {
  std::vector<std::size_t> widths;
  std::vector<bool> numbers;
};

Columns columns_of(const TableRows& rows) {
  LOCKSTEP_ASSERT(!rows.empty());
  Columns found{std::vector<std::size_t>(rows[0].size(), 0), std::vector<bool>(rows[0].size(), true)};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < rows[row].size(); ++i) {
      found.widths.at(i) = std::max(found.widths.at(i), width_of(rows[row][i]));
      if (row > 0 && !is_number(rows[row][i])) found.numbers.at(i) = false;
    }
  }
  return found;
}

}  // namespace

std::string text_table(const TableRows& rows) {
  const auto columns = columns_of(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += (i == 0 ? "" : "  ") + aligned(row[i], columns.widths[i], columns.numbers[i]);
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string markdown_table(const TableRows& rows) {
  const auto columns = columns_of(rows);
  std::string text;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    text += "| " + joined(rows[row], " | ") + " |\n";
    if (row > 0) continue;
    for (const bool number : columns.numbers) text += number ? "|---:" : "|---";
    text += "|\n";
  }
  return text;
}

std::string csv_table(const TableRows& rows) {
  std::string text;
  for (const auto& row : rows) {
    text += joined(map_each(row, csv_cell), ",") + "\r\n";
  }
  return text;
}

}  // namespace lockstep
