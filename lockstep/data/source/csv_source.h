// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tables in CSV files as samples.
///
///     auto train = lockstep::csv_table("iris/train.csv", {.label = "species"});
///     auto validation = lockstep::csv_table("iris/val.csv", {.label = "species"}, &train.columns);
///     lockstep::Loader loader(std::move(train.source), {.global_batch = 32});

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// How to read a table. Its samples have "input" F32 [columns], and "target" I64 [] for classes or F32 [1] for a
/// number.
struct CsvOptions {
  std::string label = {};       ///< The column of targets. Empty for the last one.
  bool is_regression = false;   ///< True if the target is a number.
  bool is_standardised = true;  ///< Scale columns to mean 0 and standard deviation 1, as in the training table.
  bool needs_label = true;      ///< If false, the label column or a label may be missing. Its target is then 0.
  double held_out = 0;          ///< Rows held out by drawn_split(). The scale is that of the others. 0 for none.
  std::uint64_t seed = 0;       ///< For drawn_split().
  bool is_strict = false;       ///< True if a column that training lacks is an error. Otherwise it is left out.
};

/// The columns of a training table. A validation table must have the same, and is scaled in the same way.
struct CsvColumns {
  std::vector<std::string> names;  ///< Names of the inputs, in order.
  std::string label;
  std::vector<std::string> classes;  ///< Values of the label column, numbers by size and then texts by name.
  std::vector<float> mean;
  std::vector<float> std;
};

struct CsvTable {
  std::unique_ptr<SampleSource> source;
  CsvColumns columns;
};

/// Reads a table whose first line names the columns. Commas separate fields, or semicolons or tabs if the first line
/// has those and no comma. Fields may be quoted. Pass the training table's columns as `training` for a validation
/// table.
///
/// Throws: Error(kData) with line and column for a field that is not a number, too few or many fields, a class that
/// training lacks, a missing column or, with is_strict, one that training lacks, or a table without rows; Error(kIo) if
/// the file cannot be read.
CsvTable csv_table(const std::filesystem::path& path, const CsvOptions& options, const CsvColumns* training = nullptr);

}  // namespace lockstep
