// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// A table: "input" F32 [columns], and "target" I64 [] for classes or F32 [1] for a number.
struct CsvOptions {
  std::string label = {};       ///< The column of targets; empty: the last.
  bool is_regression = false;   ///< The target is a number.
  bool is_standardised = true;  ///< Columns are brought to mean 0 and standard deviation 1, both of the training table.
};

/// What a validation table takes over from the training table.
struct CsvColumns {
  std::vector<std::string> names;  ///< Of the inputs, in order.
  std::string label;
  std::vector<std::string> classes;  ///< Values of the label column: numbers by size, then texts by name.
  std::vector<float> mean;
  std::vector<float> std;
};

struct CsvTable {
  std::unique_ptr<SampleSource> source;
  CsvColumns columns;
};

/// Reads a table whose first line names the columns; fields are separated by commas, or by semicolons or tabs where the
/// first line has those and no comma, and may be quoted. `training` is given for a validation table.
///
/// Throws: Error(kData) with line and column: not a number, too few or many fields, a class that training lacks, no
/// such column, no rows; Error(kIo).
CsvTable csv_table(const std::filesystem::path& path, const CsvOptions& options, const CsvColumns* training = nullptr);

}  // namespace lockstep
