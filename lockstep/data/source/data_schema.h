// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The facts about training data that predictions depend on. A snapshot keeps them with the weights.
///
///     const auto sets = lockstep::open_data_sets({.kind = "csv", .path = "iris.csv"});
///     const std::string json = lockstep::to_json(sets.schema);
///     const auto trained = lockstep::parsed_data_schema(json);
///     const auto part = lockstep::open_for_model({.kind = "csv", .path = "new.csv"}, trained);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/source/csv_source.h"

namespace lockstep {

/// Fields, classes and columns of a training set. Other data that the model is shown must fit them.
struct DataSchema {
  std::vector<Field> fields;
  std::int64_t classes = 0;              ///< Number of classes. 0 if the target is no class.
  std::vector<std::string> class_names;  ///< In the order of labels. Empty if the set has none.
  std::optional<CsvColumns> columns;     ///< For csv, the columns with their scale.
};

std::string to_json(const DataSchema& schema);

/// Checks that a model trained on data of this schema takes a source's samples. `name` is for messages. If
/// has_chosen_size, the recipe decides the size of an input, so it may differ from training, since many models take
/// any.
///
/// Throws: Error(kData) if the input has another shape or type, or if there are more classes than in training.
void require_fit(const SampleSource& source, const DataSchema& training, const std::string& name,
                 bool has_chosen_size = false);

/// Reads what to_json() wrote.
///
/// Throws: Error(kData) if the text was not written by to_json().
DataSchema parsed_data_schema(std::string_view json);

}  // namespace lockstep
