// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/plan_data.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/recipe/schema.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kStandIn = "synthetic";

/// The number of samples of each part. If the number for validation is missing, data.split determines it.
struct Counts {
  std::int64_t train = 0;
  std::optional<std::int64_t> validation{};
};

struct Sample {
  std::string shape;  ///< "[3, 32, 32]"
  std::int64_t classes = 0;
};

Counts parsed_counts(const std::string& text) {
  const auto words = split(text, ',');
  std::vector<std::int64_t> numbers;
  for (const auto& word : words) {
    const auto number = parsed_int<std::int64_t>(trimmed(word));
    if (!number || *number < 1 || words.size() > 2) {
      throw Error(ErrorKind::kUsage, "--samples is '" + text + "', want one or two whole numbers from 1 on",
                  "for example --samples 50000,10000: for training, and for validation");
    }
    numbers.push_back(*number);
  }
  Counts counts{.train = numbers.front()};
  if (numbers.size() > 1) counts.validation = numbers[1];
  return counts;
}

std::optional<Counts> known_counts(const Recipe& recipe) {
  const auto& kind = recipe.text("data.kind");
  if (kind == "cifar10" || kind == "cifar100") return Counts{.train = 50'000, .validation = 10'000};
  if (kind == "idx" && recipe.name() == "mnist") return Counts{.train = 60'000, .validation = 10'000};
  return std::nullopt;
}

/// Returns the side of the images after the last crop or resize of the transforms, such as "random_crop(32, 4)".
std::optional<std::int64_t> image_side(const Recipe& recipe) {
  std::optional<std::int64_t> side;
  for (const auto& transform : recipe.texts("data.transforms")) {
    const auto name = transform.substr(0, transform.find('('));
    if (!name.ends_with("crop") && name != "resize") continue;
    const auto digits = transform.find_first_of("0123456789");
    if (digits == std::string::npos) continue;
    const auto end = transform.find_first_not_of("0123456789", digits);
    if (const auto number = parsed_int<std::int64_t>(transform.substr(digits, end - digits))) side = number;
  }
  return side;
}

std::optional<Sample> known_sample(const Recipe& recipe) {
  const auto& kind = recipe.text("data.kind");
  const auto side = image_side(recipe);
  const auto square = [](std::int64_t pixels) { return std::to_string(pixels) + ", " + std::to_string(pixels) + "]"; };
  if (kind == "idx") return Sample{.shape = "[1, " + square(side.value_or(28)), .classes = 10};
  if (kind == "cifar10") return Sample{.shape = "[3, " + square(side.value_or(32)), .classes = 10};
  if (kind == "cifar100") return Sample{.shape = "[3, " + square(side.value_or(32)), .classes = 100};
  // ImageNet's number of classes. It affects the last layer only, a small part of a network for images.
  if (kind == "folder" && side) return Sample{.shape = "[3, " + square(*side), .classes = 1000};
  return std::nullopt;
}

/// Returns why the data set cannot be read here. Empty if it may be there.
std::string why_absent(const Recipe& recipe) {
  if (recipe.python_name("data.kind")) return "";  // Only its Python can tell.
  if (!recipe.has("data.path")) return "data.path is not set";
  try {
    const auto path = recipe.path("data.path");
    std::error_code ignored;
    return std::filesystem::exists(path, ignored) ? "" : "'" + path.string() + "' is not there";
  } catch (const Error& error) {
    return std::string(error.fact());
  }
}

bool is_typed(const Recipe& recipe) {
  return recipe.has("data.path") && recipe.origin("data.path").source >= SettingSource::kEnvironment;
}

bool is_taken(const std::string& set) {
  const auto key = set.substr(0, set.find('='));
  if (key == "data.kind" || key == "data.split") return false;
  const auto rows = rows_of(trimmed(key));
  if (table_of(key) != "data" || rows.empty()) return true;
  return std::ranges::any_of(rows, [](const auto* row) { return is_taken_by(*row, kStandIn); });
}

PlanData stand_in(const std::vector<std::string>& sets, const Counts& counts, const Sample& sample) {
  PlanData data;
  for (const auto& set : sets) {
    const bool is_split = set.starts_with("data.split") && !counts.validation;
    if (is_taken(set) || is_split) data.sets.push_back(set);
  }
  const auto all = counts.train + counts.validation.value_or(0);
  data.sets.push_back("data.kind=" + std::string(kStandIn));
  data.sets.push_back("data.samples=" + std::to_string(all));
  data.sets.push_back("data.shape=" + sample.shape);
  data.sets.push_back("data.classes=" + std::to_string(sample.classes));
  if (counts.validation) data.sets.push_back("data.split=" + std::to_string(*counts.validation));
  data.note = "planned without the data set: " + std::to_string(all) + " samples of " + sample.shape + " in " +
              std::to_string(sample.classes) + " classes";
  return data;
}

}  // namespace

std::optional<PlanData> plan_data(const Recipe& recipe, const std::vector<std::string>& sets,
                                  const std::string& samples) {
  if (recipe.text("data.kind") == kStandIn) {
    if (samples.empty()) return std::nullopt;
    throw Error(ErrorKind::kUsage, "--samples is given, and the recipe's samples are generated",
                "use --set data.samples=" + samples);
  }
  const auto absent = why_absent(recipe);
  auto counts = samples.empty() ? std::optional<Counts>() : parsed_counts(samples);
  if (!counts && absent.empty()) return std::nullopt;
  // If the user has typed a path, and it is wrong, that must be an error.
  if (!counts && !is_typed(recipe)) counts = known_counts(recipe);
  const auto sample = known_sample(recipe);
  if (counts && sample) return stand_in(sets, *counts, *sample);
  const std::string fact = "the data set of '" + recipe.name() + "' cannot be read here" +
                           (absent.empty() ? ", and neither is the shape of its samples known" : ": " + absent);
  throw Error(ErrorKind::kUsage, fact,
              sample ? "give its number of samples with --samples N[,VALIDATION]; or where it is: --set data.path=DIR"
                     : "say where it is: --set data.path=DIR; or describe it: --set data.kind=synthetic --set "
                       "data.samples=N --set data.shape=[3,224,224] --set data.classes=10");
}

}  // namespace lockstep::cli
