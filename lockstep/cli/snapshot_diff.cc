// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/snapshot_place.h"
#include "lockstep/format/tensor_numbers.h"
#include "lockstep/format/weights/weights_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct DiffOptions {
  std::string a;
  std::string b;
  bool json = false;
};

/// One side of the comparison: weights, and for a snapshot also the optimizer's state.
struct Side {
  WeightsFile weights;
  std::optional<SafetensorsFile> optimizer;
};

Side opened(const fs::path& path, const Log& log) {
  const auto snapshot = whole_snapshot(path, log);
  if (!snapshot) return {open_weights(path), std::nullopt};
  return {open_weights(*snapshot), SafetensorsFile::open(*snapshot / "optimizer.safetensors")};
}

std::vector<std::string> names_of(const std::vector<TensorEntry>& tensors) {
  return map_each(tensors, &TensorEntry::name);
}

/// The differences by name of the tensor.
struct Differences {
  struct Row {
    std::string name;
    const TensorEntry* a;
    const TensorEntry* b;
    std::optional<TensorDifference> numbers;  ///< Nothing if the shapes differ.
  };
  std::vector<Row> rows;
  std::vector<std::string> only_in_a;
  std::vector<std::string> only_in_b;
  std::size_t common = 0;

  bool is_empty() const { return rows.empty() && only_in_a.empty() && only_in_b.empty(); }
};

template <typename File>
void compare(const std::string& prefix, const File& a, const File& b, Differences& found) {
  for (const auto& left : a.tensors()) {
    const TensorEntry* right = b.find(left.name);
    if (right == nullptr) {
      found.only_in_a.push_back(prefix + left.name);
      continue;
    }
    ++found.common;
    const bool is_comparable = left.shape == right->shape && (left.dtype == "C64") == (right->dtype == "C64");
    if (!is_comparable) {
      found.rows.push_back({prefix + left.name, &left, right, std::nullopt});
      continue;
    }
    const auto numbers = tensor_difference(left, *right);
    if (numbers.different > 0 || left.dtype != right->dtype) {
      found.rows.push_back({prefix + left.name, &left, right, numbers});
    }
  }
  for (const auto& right : b.tensors()) {
    if (a.find(right.name) == nullptr) found.only_in_b.push_back(prefix + right.name);
  }
}

std::string kind_of(const TensorEntry& tensor) {
  std::vector<std::string> sizes;
  for (const auto size : tensor.shape) sizes.push_back(std::to_string(size));
  return tensor.dtype + " [" + joined(sizes, ", ") + "]";
}

std::string kinds_of(const Differences::Row& row) {
  const std::string a = kind_of(*row.a);
  const std::string b = kind_of(*row.b);
  return a == b ? a : a + " and " + b;
}

/// Four digits are enough for people. --json gives them all.
std::string rounded(double value) { return significant(value, 4); }

std::string verdict_on(const Differences::Row& row) {
  if (!row.numbers) return "cannot be compared";
  const auto& numbers = *row.numbers;
  if (numbers.different == 0) return "equal numbers";
  std::string text = std::to_string(numbers.different) + " of " + std::to_string(numbers.numbers) + " differ";
  if (numbers.different > numbers.not_finite) text += ", by at most " + rounded(numbers.max_abs);
  if (numbers.not_finite > 0) text += ", " + std::to_string(numbers.not_finite) + " by NaN or infinity";
  return text;
}

std::string text_of(const Differences& found) {
  std::size_t name_width = 0;
  std::size_t kind_width = 0;
  for (const auto& row : found.rows) {
    name_width = std::max(name_width, row.name.size());
    kind_width = std::max(kind_width, kinds_of(row).size());
  }
  for (const auto* alone : {&found.only_in_a, &found.only_in_b}) {
    for (const auto& name : *alone) name_width = std::max(name_width, name.size());
  }
  std::string text;
  for (const auto& row : found.rows) {
    text += padded(row.name, name_width + 2) + padded(kinds_of(row), kind_width + 2) + verdict_on(row) + "\n";
  }
  for (const auto& name : found.only_in_a) text += padded(name, name_width + 2) + "only in A\n";
  for (const auto& name : found.only_in_b) text += padded(name, name_width + 2) + "only in B\n";
  const std::size_t alone = found.only_in_a.size() + found.only_in_b.size();
  return text + std::to_string(found.rows.size()) + " of " + std::to_string(found.common) + " tensors differ" +
         (alone == 0 ? "" : "; on one side only: " + std::to_string(alone)) + "\n";
}

Json json_of(const Differences& found, const DiffOptions& options) {
  Json rows = Json::array();
  for (const auto& row : found.rows) {
    Json item = {{"name", row.name},
                 {"a", {{"dtype", row.a->dtype}, {"shape", row.a->shape}}},
                 {"b", {{"dtype", row.b->dtype}, {"shape", row.b->shape}}},
                 {"numbers", nullptr},
                 {"differ", nullptr},
                 {"not_finite", nullptr},
                 {"max_abs", nullptr}};
    if (row.numbers) {
      item["numbers"] = row.numbers->numbers;
      item["differ"] = row.numbers->different;
      item["not_finite"] = row.numbers->not_finite;
      item["max_abs"] = row.numbers->max_abs;
    }
    rows.push_back(std::move(item));
  }
  return {{"schema", 1},
          {"a", options.a},
          {"b", options.b},
          {"equal", found.is_empty()},
          {"common", found.common},
          {"different", std::move(rows)},
          {"only_in_a", found.only_in_a},
          {"only_in_b", found.only_in_b}};
}

void diff(const DiffOptions& options, const Log& log) {
  Side a = opened(options.a, log);
  Side b = opened(options.b, log);
  if (a.weights.fit(names_of(b.weights.tensors())).empty()) b.weights.fit(names_of(a.weights.tensors()));
  Differences found;
  compare("", a.weights, b.weights, found);
  if (a.optimizer && b.optimizer) compare("optimizer: ", *a.optimizer, *b.optimizer, found);
  if (options.json) return print_json(json_of(found, options));
  print_text(text_of(found));
}

}  // namespace

void add_snapshot_diff(CLI::App& snapshot, Context& context) {
  auto* command = snapshot.add_subcommand("diff", "Show which tensors differ, in how many elements, and by how much");
  auto options = std::make_shared<DiffOptions>();
  const std::string help = "A run folder, a snapshot, or weights: .safetensors, .pt, .ckpt or a Hugging Face folder";
  command->add_option("A", options->a, help)->required();
  command->add_option("B", options->b, help)->required();
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->callback([options, &context] { diff(*options, context.log); });
}

}  // namespace lockstep::cli
