// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/data_schema.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/format/json_number.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// JSON holds only UTF-8, but the name of a file or column may be any bytes. Such a name is written as a list of its
// bytes.
Json name_json(const std::string& name) {
  Json text = name;
  try {
    static_cast<void>(text.dump());
    return text;
  } catch (const Json::exception&) {
    return std::vector<unsigned char>(name.begin(), name.end());
  }
}

std::string name_from(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto bytes = json.get<std::vector<unsigned char>>();
  return {bytes.begin(), bytes.end()};
}

Json names_json(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const auto& name : names) list.push_back(name_json(name));
  return list;
}

std::vector<std::string> names_from(const Json& json) {
  std::vector<std::string> names;
  for (const auto& each : json) names.push_back(name_from(each));
  return names;
}

Json numbers_json(const std::vector<float>& numbers) {
  Json list = Json::array();
  for (const float number : numbers) list.push_back(to_json_number(number));
  return list;
}

std::vector<float> numbers_from(const Json& json, std::size_t columns) {
  std::vector<float> numbers;
  for (const auto& each : json) numbers.push_back(static_cast<float>(from_json_number(each)));
  if (numbers.empty() || numbers.size() == columns) return numbers;
  throw std::runtime_error(std::to_string(numbers.size()) + " numbers for " + std::to_string(columns) + " columns");
}

std::string field_text(const Field& field) {
  std::string shape;
  for (const std::int64_t size : field.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  return field.dtype + " [" + shape + "]";
}

bool is_fit_input(const Field& input, const Field& wanted, bool has_chosen_size) {
  if (input.dtype != wanted.dtype || input.shape.size() != wanted.shape.size()) return false;
  if (input.shape == wanted.shape) return true;
  // The first dimension of an image is its channels. Their number must match even if the recipe chooses the size.
  return has_chosen_size && (input.shape.size() != 3 || input.shape[0] == wanted.shape[0]);
}

}  // namespace

void require_fit(const SampleSource& source, const DataSchema& training, const std::string& name,
                 bool has_chosen_size) {
  const Field& input = source.fields().at(0);
  const Field& wanted = training.fields.at(0);
  if (!is_fit_input(input, wanted, has_chosen_size)) {
    throw Error(ErrorKind::kData,
                name + ": a sample is " + field_text(input) + ", the model was trained on " + field_text(wanted),
                "show the model data like those that it was trained on");
  }
  if (source.classes() <= training.classes) return;
  throw Error(ErrorKind::kData,
              name + ": has " + std::to_string(source.classes()) + " classes, the model was trained on " +
                  std::to_string(training.classes),
              "show the model data with the classes that it was trained on");
}

std::string to_json(const DataSchema& schema) {
  Json json = {{"fields", Json::array()},
               {"classes", schema.classes},
               {"class_names", names_json(schema.class_names)},
               {"csv", nullptr}};
  for (const auto& field : schema.fields) {
    json["fields"].push_back({{"name", field.name}, {"dtype", field.dtype}, {"shape", field.shape}});
  }
  if (schema.columns) {
    json["csv"] = {{"columns", names_json(schema.columns->names)},
                   {"label", name_json(schema.columns->label)},
                   {"mean", numbers_json(schema.columns->mean)},
                   {"std", numbers_json(schema.columns->std)}};
  }
  return json.dump();
}

DataSchema parsed_data_schema(std::string_view text) {
  try {
    const auto json = Json::parse(text);
    DataSchema schema;
    for (const auto& field : json.at("fields")) {
      schema.fields.push_back({.name = field.at("name"),
                               .dtype = field.at("dtype"),
                               .shape = field.at("shape").get<decltype(Field::shape)>()});
    }
    if (schema.fields.empty()) throw std::runtime_error("it names no field");
    schema.classes = json.at("classes");
    schema.class_names = names_from(json.at("class_names"));
    const auto& csv = json.at("csv");
    if (csv.is_null()) return schema;
    CsvColumns columns;
    columns.names = names_from(csv.at("columns"));
    columns.label = name_from(csv.at("label"));
    columns.mean = numbers_from(csv.at("mean"), columns.names.size());
    columns.std = numbers_from(csv.at("std"), columns.names.size());
    columns.classes = schema.class_names;
    schema.columns = std::move(columns);
    return schema;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kData, std::string("the description of the training data cannot be read: ") + error.what(),
                "use a snapshot before it");
  }
}

}  // namespace lockstep
