// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/unit_column.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

struct Unit {
  std::string_view name;
  double size = 1;  ///< Size of the unit, in the unit of the values.
  double from = 0;  ///< The smallest value that is shown in this unit.
  int most_digits = 3;
};

constexpr auto kTimes =
    std::to_array<Unit>({{"µs", 1e-6, 0, 0}, {"ms", 1e-3, 1e-3}, {"s", 1, 1}, {"min", 60, 3600}, {"h", 3600, 36000}});
constexpr auto kBytes = std::to_array<Unit>({{"B", 1, 0, 0},
                                             {"KiB", 1 << 10, 1 << 10, 1},
                                             {"MiB", 1 << 20, 1 << 20, 1},
                                             {"GiB", 1 << 30, 1 << 30, 1},
                                             {"TiB", 1024.0 * (1 << 30), 1024.0 * (1 << 30), 1}});

/// Returns how many digits behind the point give the largest value four significant digits and the smallest value two.
int digits_for(double smallest, double largest, int most) {
  const int by_largest = largest >= 1000 ? 0 : largest >= 100 ? 1 : largest >= 10 ? 2 : 3;
  const int by_smallest = smallest >= 10 ? 0 : smallest >= 1 ? 1 : smallest >= 0.1 ? 2 : 3;
  return std::min(std::max(by_largest, by_smallest), most);
}

TableColumn column(std::string_view head, const ColumnValues& values, std::span<const Unit> units) {
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();
  for (const auto& each : values) {
    largest = std::max(largest, each.value_or(0));
    if (each.value_or(0) > 0) smallest = std::min(smallest, *each);
  }
  const bool is_nothing = largest < units.front().size / 2;
  const auto* unit = &*std::ranges::find(units, 1.0, &Unit::size);  // Of nothing but zeros.
  for (const auto& each : units) {
    if (!is_nothing && largest >= each.from) unit = &each;
  }
  const int digits = !is_nothing ? digits_for(smallest / unit->size, largest / unit->size, unit->most_digits) : 0;
  TableColumn cells = {std::string(head) + " (" + std::string(unit->name) + ")"};
  for (const auto& each : values) cells.push_back(each ? fixed(*each / unit->size, digits) : "-");
  return cells;
}

}  // namespace

TableColumn time_column(std::string_view head, const ColumnValues& seconds) { return column(head, seconds, kTimes); }

TableColumn bytes_column(std::string_view head, const ColumnValues& bytes) { return column(head, bytes, kBytes); }

TableColumn number_column(std::string_view head, const ColumnValues& numbers) {
  double largest = 0;
  for (const auto& each : numbers) largest = std::max(largest, each.value_or(0));
  const int digits = largest >= 100 ? 1 : largest >= 1 ? 3 : 5;
  TableColumn cells = {std::string(head)};
  for (const auto& each : numbers) cells.push_back(each ? fixed(*each, digits) : "-");
  return cells;
}

TableRows rows_of_columns(const std::vector<TableColumn>& columns) {
  TableRows rows(columns.empty() ? 0 : columns.front().size());
  for (const auto& each : columns) {
    LOCKSTEP_ASSERT(each.size() == rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row].push_back(each[row]);
  }
  return rows;
}

}  // namespace lockstep
