// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/text_table.h"

namespace lockstep {

/// One column of a table: its head and its cells.
using TableColumn = std::vector<std::string>;
using ColumnValues = std::vector<std::optional<double>>;

/// Returns a column of times in one unit, which its head names: {"step (ms)", "4.15", "85.40"}. The largest value
/// chooses the unit and the digits. A missing value is "-".
TableColumn time_column(std::string_view head, const ColumnValues& seconds);

/// Returns a column of sizes in one unit, such as {"read (MiB)", "4.1", "712.0"}.
TableColumn bytes_column(std::string_view head, const ColumnValues& bytes);

/// Returns a column of plain numbers with as many digits each as the largest needs.
TableColumn number_column(std::string_view head, const ColumnValues& numbers);

/// Returns the rows of `columns`. LOCKSTEP_ASSERT: all columns have the same length.
TableRows rows_of_columns(const std::vector<TableColumn>& columns);

}  // namespace lockstep
